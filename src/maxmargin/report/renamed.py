"""Plots under the names that they had: they draw with ``report.plots``, write a file, and give the figure."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from os import PathLike
from types import SimpleNamespace
from typing import Any

import numpy as np

from maxmargin.report.plots import AXES, drawn_into, plot_convergence, plot_path

Path = str | PathLike[str] | None


def warn_renamed(old: str, new: str) -> None:
    """Say what to use."""
    warnings.warn(f"{old} is deprecated, use {new}", FutureWarning, stacklevel=3)


def convergence_plot(
    histories: Mapping[str, Any],
    path: Path = None,
    ax: Any = None,
    *,
    against: str = "passes",
    tol: float | None = None,
) -> Any:
    """Deprecated: ``plot_convergence`` in two panels, passes and seconds, or in ``ax``; the figure."""
    warn_renamed("convergence_plot", "plot_convergence(trained, ax).figure")
    if ax is not None:
        figure = plot_convergence(histories, ax, against=against, tol=tol).figure
    else:
        figure = drawn_into(None, (10, 4)).figure
        figure.clear()
        for panel, quantity in zip(figure.subplots(1, 2, sharey=True), AXES, strict=True):
            plot_convergence(histories, panel, against=quantity, tol=tol)
    return saved(figure, path)


def validation_plot(Cs: Any, scores: Any, path: Path = None, ax: Any = None) -> Any:
    """Deprecated: ``plot_path`` of values of C and their scores; the figure."""
    warn_renamed("validation_plot", "plot_path(search, ax).figure")
    Cs, scores = np.asarray(Cs, dtype=float), np.atleast_2d(np.asarray(scores, dtype=float))
    if Cs.ndim != 1 or scores.ndim != 2 or scores.shape[1] != len(Cs):
        raise ValueError(
            f"scores: expected one for each of {Cs.size} values of C, got shape {scores.shape}"
        )
    return saved(plot_path(SimpleNamespace(Cs_=Cs, scores_=scores), ax).figure, path)


def saved(figure: Any, path: Path) -> Any:
    """The figure, written where a path is given."""
    if path is not None:
        figure.savefig(path, dpi=120)
    return figure
