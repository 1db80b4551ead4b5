"""Trials of a model's argmax in training: what one of its methods finds, another must not have missed.

    max_y Delta(y) + <w, psi(y)>  >=  Delta(y') + <w, psi(y')>             margin rescaling
    max_y Delta(y) (1 + <w, psi(y)>)  >=  Delta(y') (1 + <w, psi(y')>)     slack rescaling

for every output y', so for that of ``inference`` too. An oracle that answers with the true output, or with
the least where the largest is asked for, breaks this at almost every w. Left alone it would end training at
once: no slack, w = 0, a gap of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from maxmargin.models.base import NOISE, OracleError

if TYPE_CHECKING:
    from maxmargin.models.planes import Vector
    from maxmargin.models.python import PythonExamples

FIRST = 5  # examples tried before training
LAST = 10  # examples whose slack is held against inference when training ends
SCALES = (0.0, 0.1, 10.0)  # of the scores at the w that are tried, in units of the loss


def spread(n: int, most: int) -> list[int]:
    """Numbers of examples from all over the data."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int)).tolist()


def value(plane: tuple[float, Vector], w: np.ndarray) -> float:
    """What an output adds up to at w: no more than the slack."""
    offset, (index, values) = plane
    return offset + float(w[index] @ values)


def hold(examples: PythonExamples, i: int, known: float, found: float, rescaling: str) -> None:
    """Refuse an argmax that found less than what is known of example i."""
    if known <= found + NOISE * (1 + abs(known)):
        return
    own = rescaling == "slack" and hasattr(examples.model, "slack_rescaled_inference")
    name = "slack_rescaled_inference" if own else "loss_augmented_inference"
    raise OracleError(
        f"{name} of example {i} found an output of loss and margin {found:.6g}, but at the same w another "
        f"output of the model, by inference or by an answer to another w, has {known:.6g}: it is not the "
        "largest. mm.check_model(model, X, Y) looks for the reason; if the argmax is approximate, set "
        "exact = False on the model"
    )


def try_argmax(examples: PythonExamples, rescaling: str) -> int:
    """Hold the oracle's answers at w = 0, a small and a large w against inference and each other.

    Returns how many answers were asked for. w is not negative: some argmaxes ask for that.
    """
    chosen = spread(examples.n, FIRST)
    direction = np.abs(np.random.default_rng(0).standard_normal(examples.dimension))
    inferred = planes_of(examples, chosen, examples.inferred(chosen, direction), rescaling)
    losses = [offset for offset, _ in inferred]
    margins = [abs(value((0.0, vector), direction)) for _, vector in inferred]
    unit = (max(losses) or 1.0) / (max(margins) or 1.0)
    weights = [scale * unit * direction for scale in SCALES]
    answers = [examples.worst(chosen, w, rescaling) for w in weights]
    for w, (own, ceilings) in zip(weights, answers, strict=True):
        for k, i in enumerate(chosen):
            known = [value(planes[k], w) for planes in (inferred, *(a for a, _ in answers))]
            found = max([value(own[k], w), *ceilings[k : k + 1]])
            hold(examples, i, max(known), found, rescaling)
    return len(SCALES) * len(chosen)


def check_ceilings(
    examples: PythonExamples, w: np.ndarray, ceilings: np.ndarray, rescaling: str
) -> None:
    """Hold the slacks of an exact pass at w against inference at the same w."""
    chosen = spread(examples.n, LAST)
    inferred = planes_of(examples, chosen, examples.inferred(chosen, w), rescaling)
    for i, plane in zip(chosen, inferred, strict=True):
        hold(examples, i, value(plane, w), float(ceilings[i]), rescaling)


def planes_of(
    examples: PythonExamples, chosen: list[int], outputs: Sequence, rescaling: str
) -> list[tuple[float, Vector]]:
    """The planes of some outputs."""
    return [examples.plane(i, output, rescaling) for i, output in zip(chosen, outputs, strict=True)]
