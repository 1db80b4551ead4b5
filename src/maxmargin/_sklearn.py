"""Base classes of scikit-learn with type annotations that it lacks, so that type checkers know them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    class BaseEstimator:
        """Has parameters by name, copies and diagrams."""

        @classmethod
        def _get_param_names(cls) -> list[str]: ...
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Any: ...
        def get_metadata_routing(self) -> Any: ...
        def set_fit_request(self, **requests: bool | str | None) -> Any: ...
        def set_score_request(self, **requests: bool | str | None) -> Any: ...
        def _repr_html_(self) -> str: ...
        def __sklearn_tags__(self) -> Any: ...
        def __sklearn_clone__(self) -> Any: ...
        def __getstate__(self) -> dict[str, Any]: ...
        def __setstate__(self, state: dict[str, Any]) -> None: ...

    class ClassifierMixin:
        """Scores by accuracy."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

    class RegressorMixin:
        """Scores by R^2."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

    class TransformerMixin:
        """Adds ``set_output`` to transformers."""

        def set_output(self, *, transform: str | None = None) -> Any: ...

    class CallbackSupportMixin:
        """Reports the progress of fits to callbacks."""

        def set_callbacks(self, *callbacks: Any) -> Any: ...
        def _init_callback_context(self, **settings: Any) -> Any: ...

else:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin

    try:
        from sklearn.callback import CallbackSupportMixin
    except ImportError:  # before 1.9

        class CallbackSupportMixin:
            """An empty class: this scikit-learn has no callbacks."""


__all__ = [
    "BaseEstimator",
    "CallbackSupportMixin",
    "ClassifierMixin",
    "RegressorMixin",
    "TransformerMixin",
]
