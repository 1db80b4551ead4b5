"""What leaves an estimator: a page about it for a browser, model files, copies and pickles."""

from __future__ import annotations

import copy
from concurrent.futures import Executor
from typing import Any

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from maxmargin.data.arrays import plain_outputs, whole
from maxmargin.notebook import Shown


class Reporting(Shown):
    """``report``: what is proven, how training went, what was learnt, where it fails; ``save``; copies."""

    n_jobs: Any

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
        whole().check("k", k)
        if (X is None) != (Y is None):
            raise ValueError("report: give both X and Y, or none of them")
        Y = plain_outputs(Y)
        if texts is not None and (Y is None or len(texts) != len(Y)):
            raise ValueError("report: texts must have one text for each example of X and Y")
        write_page(path, Subject(self, X, Y, k, texts, shape, search), title)

    def save(self, path: Any, dtype: str = "float64") -> None:
        """Write the model to a file that holds numbers and plain text only; see ``maxmargin.load``.

        Parameters
        ----------
        dtype : "float64" or "float32"
            What weights are written in. Single precision halves them; scores then differ from these by their
            rounding, a part in 10^7 of each weight, and close outputs may change places.
        """
        from maxmargin.persistence import save

        save(self, path, dtype)

    def __sklearn_clone__(self) -> Any:
        """A clone shares its executor: workers cannot be copied."""
        if not isinstance(self.n_jobs, Executor):
            return super().__sklearn_clone__()
        return clone(copy.copy(self)).set_params(n_jobs=self.n_jobs)

    def __getstate__(self) -> dict[str, Any]:
        """Without workers and packed weights, in copies and in pickles."""
        state = {k: v for k, v in super().__getstate__().items() if k != "_packed"}
        return dict(state, n_jobs=None) if isinstance(state.get("n_jobs"), Executor) else state
