"""A page about a fitted estimator, as a file for a browser."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from maxmargin.data.arrays import check_whole
from maxmargin.estimators.inputs import plain_outputs


class Reporting:
    """``report``: what is proven, how training went, what was learnt, where it fails."""

    def report(
        self,
        path: Any,
        X: Any = None,
        Y: Any = None,
        *,
        title: str = "maxmargin report",
        k: int = 10,
        texts: Any = None,
        shape: tuple[int, int] | None = None,
        search: Any = None,
    ) -> None:
        """Write one HTML page that needs nothing but a browser; below 500 KB.

        Parameters
        ----------
        path : where to write it
        X, Y : examples and true outputs to judge the estimator by, best ones that it has not seen; without
            them the page has no scores
        k : int
            Features shown for each label, and mistakes.
        texts : sequence of texts or None
            What to show of each example among the mistakes, such as its words.
        shape : (height, width) or None
            Where features are pixels: their weights are shown as images.
        search : what ``regularization_path`` gave, or None
            For the scores over C; an estimator that chose C itself has them.
        """
        from maxmargin.report.page import Subject, write_page

        check_is_fitted(self, "coef_")
        check_whole("k", k)
        if (X is None) != (Y is None):
            raise ValueError("report: give both X and Y, or none of them")
        Y = plain_outputs(Y)
        if texts is not None and (Y is None or len(texts) != len(Y)):
            raise ValueError("report: texts must have one text for each example of X and Y")
        write_page(path, Subject(self, X, Y, k, texts, shape, search), title)
