"""Checks of a user's model during training: its argmax must be correct, and it must not change w.

The trial of an argmax compares outputs that several methods found. No output may beat the oracle's:

    max_y Delta(y) + <w, psi(y)>  >=  Delta(y') + <w, psi(y')>             margin rescaling
    max_y Delta(y) (1 + <w, psi(y)>)  >=  Delta(y') (1 + <w, psi(y')>)     slack rescaling

for every output y', including the output of ``inference``. A wrong oracle may return the true output, or
the minimum instead of the maximum; it breaks this rule at almost every w. Without the trial it would end
training at once, with no slack, w = 0 and a gap of 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.io.quoting import short

if TYPE_CHECKING:
    from maxmargin.models.planes import Vector
    from maxmargin.models.python import PythonExamples

# relative difference below which two scores count as equal; a larger value hides wrong oracles
NOISE = 1e-6
FIRST = 5  # number of examples tried before training
COMPARED_AT_END = 10  # number of examples whose slack is compared with inference when training ends
SCALES = (0.0, 0.1, 10.0)  # scales of the scores at the trial weights, in units of the loss


class OracleError(ValueError):
    """A model's argmax contradicts its own features or loss."""


def beaten(example: int, lead: float) -> OracleError:
    """Return the error for an oracle that missed a known output."""
    return OracleError(
        f"loss_augmented_inference of example {example} returned an output that is worse by "
        f"{lead:.3g} than a known one (the true output, or one that it returned before); correct "
        "it, or set exact = False on the model if it is approximate"
    )


def no_cost(label: Any) -> ValueError:
    """Return the error for a true label without a row in the cost matrix."""
    return ValueError(
        f"the label {short(label)} has no cost, because it is not among the classes of the model"
    )


# w, passed to methods of a user's model


def read_only(w: np.ndarray) -> np.ndarray:
    """Return a read-only view of w; NumPy raises ValueError on writing."""
    view = np.asarray(w).view()
    view.flags.writeable = False
    return view


@contextmanager
def lent(w: np.ndarray, method: str) -> Iterator[np.ndarray]:
    """Give w to one method of a user's model; report an attempt to change it with the method's name."""
    try:
        yield read_only(w)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise OracleError(
            f"{method} of the model writes into a read-only array; if this array is w, which the "
            "solver still uses, work on a copy, w.copy()"
        ) from error


# trials of an argmax


def spread_numbers(n: int, most: int) -> list[int]:
    """Return at most ``most`` numbers of examples, spread evenly over the data."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int)).tolist()


def value(plane: tuple[float, Vector], w: np.ndarray) -> float:
    """Return offset + <w, vector> of an output; it is at most the slack."""
    offset, (index, values) = plane
    return offset + float(w[index] @ values)


def check_not_beaten(examples: PythonExamples, i: int, known: float, found: float) -> None:
    """Raise OracleError if an argmax found less than a known value of example i."""
    if known <= found + NOISE * (1 + abs(known)):
        return
    slack = examples.formulation.rescaling == "slack"
    own = slack and hasattr(examples.model, "slack_rescaled_inference")
    name = "slack_rescaled_inference" if own else "loss_augmented_inference"
    raise OracleError(
        f"{name} of example {i} found an output with loss plus margin {found:.6g}, but another "
        f"output of the model (from inference, or found at another w) has {known:.6g} at the same "
        "w. Call mm.check_model(model, X, Y) to find the reason; if the argmax is approximate, "
        "set exact = False on the model"
    )


def try_argmax(examples: PythonExamples) -> int:
    """Compare the oracle's answers at w = 0, a small and a large w with inference and with each other.

    Returns the number of oracle calls. w is non-negative, because some argmaxes require that.
    """
    chosen = spread_numbers(examples.n, FIRST)
    direction = np.abs(np.random.default_rng(0).standard_normal(examples.dimension))
    inferred = inferred_planes(examples, chosen, direction)
    losses = [offset for offset, _ in inferred]
    margins = [abs(value((0.0, vector), direction)) for _, vector in inferred]
    unit = (max(losses) or 1.0) / (max(margins) or 1.0)
    weights = [scale * unit * direction for scale in SCALES]
    answers = [examples.ask(chosen, w) for w in weights]
    for w, (own, ceilings) in zip(weights, answers, strict=True):
        for k, i in enumerate(chosen):
            known = [value(planes[k], w) for planes in (inferred, *(a for a, _ in answers))]
            found = max([value(own[k], w), *ceilings[k : k + 1]])
            check_not_beaten(examples, i, max(known), found)
    return len(SCALES) * len(chosen)


def check_ceilings(examples: PythonExamples, w: np.ndarray, ceilings: np.ndarray) -> None:
    """Compare the slacks of an exact pass at w with inference at the same w."""
    chosen = spread_numbers(examples.n, COMPARED_AT_END)
    for i, plane in zip(chosen, inferred_planes(examples, chosen, w), strict=True):
        check_not_beaten(examples, i, value(plane, w), float(ceilings[i]))


def inferred_planes(
    examples: PythonExamples, chosen: list[int], w: np.ndarray
) -> list[tuple[float, Vector]]:
    """Return the planes of the model's predictions at w for some examples."""
    outputs = examples.inferred(chosen, w)
    return [examples.plane(i, output) for i, output in zip(chosen, outputs, strict=True)]
