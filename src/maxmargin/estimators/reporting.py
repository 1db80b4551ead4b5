"""Output of an estimator: HTML reports, model files, copies and pickles."""

from __future__ import annotations

import copy
from concurrent.futures import Executor
from typing import Any

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from maxmargin.data.arrays import plain_outputs, takes_outputs, whole
from maxmargin.notebook import Shown

# Fitted state without a public name, by its name in pickles of version 0.2.
STATE = {"fingerprint_": "_fingerprint", "memory_": "_memory", "weighted_nodes_": "_weighted_nodes"}


class Reporting(Shown):
    """Reports, model files, copies and pickles of an estimator."""

    n_jobs: Any

    @takes_outputs
    def report(
        self,
        path: Any,
        X: Any = None,
        y: Any = None,
        *,
        title: str = "maxmargin report",
        k: int = 10,
        texts: Any = None,
        shape: tuple[int, int] | None = None,
        search: Any = None,
    ) -> None:
        """Write a self-contained HTML page about the fit, below 500 KB.

        Parameters
        ----------
        path : the file to write.
        X, y : examples and true outputs to judge the estimator by, best if it has not seen them.
            Without them the page has no scores.
        k : int
            Number of features shown for each label, and of mistakes.
        texts : sequence of texts or None
            The text shown for each example among the mistakes, such as its words.
        shape : (height, width) or None
            If the features are pixels, the page shows their weights as images.
        search : the result of ``regularization_path``, or None
            Shows the score of each C; not needed for an estimator that chose C itself.
        """
        from maxmargin.report.page import Subject, write_page

        check_is_fitted(self, "coef_")
        whole().check("k", k)
        if (X is None) != (y is None):
            raise ValueError("report: give both X and Y, or neither")
        Y = plain_outputs(y)
        if texts is not None and (Y is None or len(texts) != len(Y)):
            raise ValueError("report: texts must have one text for each example of X and Y")
        write_page(path, Subject(self, X, Y, k, texts, shape, search), title)

    def save(self, path: Any, dtype: str = "float64") -> None:
        """Write the model to a file that holds numbers and plain text only; see ``maxmargin.load``.

        Parameters
        ----------
        dtype : "float64" or "float32"
            Type of the stored weights. Single precision halves the file. It rounds each weight by a part in
            10^7, so scores differ slightly, and close outputs may change places.
        """
        from maxmargin.persistence import save

        save(self, path, dtype)

    def __sklearn_clone__(self) -> Any:
        """Clone the estimator; a clone shares the executor, because workers cannot be copied."""
        if not isinstance(self.n_jobs, Executor):
            return super().__sklearn_clone__()
        return clone(copy.copy(self)).set_params(n_jobs=self.n_jobs)

    def __getstate__(self) -> dict[str, Any]:
        """The state for copies and pickles, without workers and packed weights."""
        state = {k: v for k, v in super().__getstate__().items() if k != "_packed"}
        return dict(state, n_jobs=None) if isinstance(state.get("n_jobs"), Executor) else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy or a pickle, also one of an earlier version."""
        super().__setstate__({STATE.get(name, name): value for name, value in state.items()})

    def __dir__(self) -> list[str]:
        """The names of this object, without attributes that are parameters of other estimators only."""
        known = {*self._get_param_names(), *vars(self)}
        return [
            name
            for name in super().__dir__()
            if name in known
            or name[0] == "_"
            or name[-1] == "_"
            or callable(getattr(self, name, None))
        ]
