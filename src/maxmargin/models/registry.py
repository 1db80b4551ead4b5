"""The built-in models: listed once, for model files, kernels, and the table of what solves what.

A model declares in ``powers`` what not all models have, and its examples declare what solvers may need.
"""

from __future__ import annotations

from typing import Any

LABELS = "one set of labels"  # which may be given, as the parameter ``classes``
ROWS = "feature rows"  # for a kernel, or in mapped files: ``read`` and ``bind_rows``
FACTORS = "nodes and edges"  # of which scores and losses are sums, and which are visited one by one
SUMS = "sums over all outputs"  # so that there is a log loss
POTENTIALS = "labels and neighbours"  # whose potentials give distributions, which may be kept
UNKNOWN_LABELS = "labels that may be unknown"  # in true outputs: ``models.Partial``

MODELS: dict[str, Any] = {}  # classes by name
# Names of those for ``StructuralSVM``; the others have estimators of their own.
STRUCTURAL: list[str] = []


def register(*kinds: Any, structural: bool = True) -> None:
    """Add models."""
    MODELS.update({kind.__name__: kind for kind in kinds})
    STRUCTURAL.extend(kind.__name__ for kind in kinds if structural)


def is_listed(model: Any) -> bool:
    """Whether a model is of these classes themselves: a class derived from one is code of the user's."""
    return MODELS.get(type(model).__name__) is type(model)


def has_power(model: Any, power: str) -> bool:
    """Whether a model is one of these, and has a power."""
    return is_listed(model) and power in model.powers


def names_with(power: str) -> list[str]:
    """Names of the models that have a power."""
    return [name for name, kind in MODELS.items() if power in kind.powers]
