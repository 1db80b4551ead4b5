"""The score against C, of one path or of several folds."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from maxmargin.report.curves import new_figure

__all__ = ["validation_plot"]


def validation_plot(
    Cs: Any, scores: Any, path: str | PathLike[str] | None = None, ax: Any = None
) -> Any:
    """Draw the score of every fold (thin), their mean (thick), and the C of the best mean.

    Parameters
    ----------
    Cs : array of shape (k,), such as ``Cs_`` of an estimator that chose C
    scores : array of shape (folds, k) or (k,), such as its ``scores_``
    path : where to write the picture (png, pdf, svg by its ending); nothing is written by default
    ax : Matplotlib axes to draw into; by default a new figure

    Returns
    -------
    The Matplotlib figure.
    """
    Cs, scores = np.asarray(Cs, dtype=float), np.atleast_2d(np.asarray(scores, dtype=float))
    if Cs.ndim != 1 or scores.ndim != 2 or scores.shape[1] != len(Cs):
        raise ValueError(
            f"scores: expected one for each of {Cs.size} values of C, got shape {scores.shape}"
        )
    figure = new_figure("validation_plot", (6, 4)) if ax is None else ax.figure
    ax = figure.subplots() if ax is None else ax
    means = scores.mean(axis=0)
    for fold in scores if len(scores) > 1 else ():
        ax.plot(Cs, fold, color="gray", linewidth=0.8, alpha=0.6)
    ax.plot(
        Cs, means, color="C0", marker="o", label="mean of folds" if len(scores) > 1 else "score"
    )
    if not np.isnan(means).all():
        chosen = Cs[int(np.nanargmax(means))]
        ax.axvline(chosen, color="C1", linestyle="--", label=f"C = {chosen:.3g}")
    ax.set_xscale("log")
    ax.set_xlabel("C")
    ax.set_ylabel("score")
    ax.grid(True, which="major", alpha=0.3)
    ax.legend(fontsize="small")
    if path is not None:
        figure.savefig(path, dpi=120)
    return figure
