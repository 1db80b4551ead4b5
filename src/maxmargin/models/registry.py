"""The list of built-in models, for model files, kernels, and the table of which solver handles which model.

A model declares in ``powers`` the abilities that not all models have; its examples declare abilities that
solvers may need.
"""

from __future__ import annotations

from typing import Any

LABELS = "one set of labels"  # the parameter ``classes`` may list them
ROWS = "feature rows"  # for a kernel, or in mapped files: ``read`` and ``bind_rows``
# scores and losses are sums over these; solvers visit them one at a time
FACTORS = "nodes and edges"
SUMS = "sums over all outputs"  # required for a log loss
POTENTIALS = "labels and neighbours"  # their potentials define distributions, which may be cached
UNKNOWN_LABELS = "labels that may be unknown"  # in true outputs: see ``models.Partial``

MODELS: dict[str, Any] = {}  # classes by name
# Names of the models for ``StructuralSVM``; the other models have their own estimators.
STRUCTURAL: list[str] = []


def register(*kinds: Any, structural: bool = True) -> None:
    """Register models."""
    MODELS.update({kind.__name__: kind for kind in kinds})
    STRUCTURAL.extend(kind.__name__ for kind in kinds if structural)


def is_listed(model: Any) -> bool:
    """Whether the class of a model is registered; a class derived from one is code of the user."""
    return MODELS.get(type(model).__name__) is type(model)


def has_power(model: Any, power: str) -> bool:
    """Whether a model is registered and has a power."""
    return is_listed(model) and power in model.powers


def names_with(power: str) -> list[str]:
    """Return the names of the models that have a power."""
    return [name for name, kind in MODELS.items() if power in kind.powers]
