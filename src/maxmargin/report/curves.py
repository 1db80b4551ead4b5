"""Convergence curves: the gap against passes and against seconds, for one or several trainings."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

__all__ = ["convergence_plot"]

AXES = {"passes": "passes over the examples", "seconds": "seconds"}


def convergence_plot(
    histories: Mapping[str, Any],
    path: str | PathLike[str] | None = None,
    ax: Any = None,
    *,
    against: str = "passes",
    tol: float | None = None,
) -> Any:
    """Draw the certified gap (solid) and its running estimate (dotted) of each training.

    Parameters
    ----------
    histories : name -> ``history_`` of a fitted estimator, or any mapping of its keys to arrays.
    path : where to write the picture (png, pdf, svg by its ending); nothing is written by default.
    ax : Matplotlib axes to draw into, against the quantity ``against``. By default a new figure
        with two panels, passes and seconds.
    against : ``"passes"`` or ``"seconds"``; used with ``ax`` only.
    tol : draws a line at this gap.

    Returns
    -------
    The Matplotlib figure.
    """
    if not histories:
        raise ValueError("histories: expected at least one named history, got none")
    if against not in AXES:
        raise ValueError(f"against: expected 'passes' or 'seconds', got {against!r}")
    if ax is not None:
        figure = ax.figure
        _draw(ax, histories, against, tol)
    else:
        figure = new_figure("convergence_plot", (10, 4))
        for panel, quantity in zip(figure.subplots(1, 2, sharey=True), AXES, strict=True):
            _draw(panel, histories, quantity, tol)
    figure.axes[0].legend(fontsize="small")
    if path is not None:
        figure.savefig(path, dpi=120)
    return figure


def new_figure(asked_by: str, size: tuple[float, float]) -> Any:
    """A figure of Matplotlib, which is imported here and not before."""
    # Figure alone, without pyplot: no window system is asked for and nothing is kept globally.
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            f"{asked_by} needs matplotlib, which is not installed: pip install maxmargin[plots]"
        ) from error
    return Figure(figsize=size, layout="constrained")


def _draw(ax: Any, histories: Mapping[str, Any], quantity: str, tol: float | None) -> None:
    for index, (name, history) in enumerate(histories.items()):
        color = f"C{index % 10}"
        certified = _curve(name, history, quantity, "gap")
        estimated = _curve(name, history, quantity, "estimate")
        ax.plot(*certified, color=color, marker=".", label=name)
        ax.plot(*estimated, color=color, linestyle=":", linewidth=1.2)
    ax.plot([], [], color="gray", linestyle=":", label="running estimates")
    if tol is not None:
        ax.axhline(tol, color="gray", linewidth=0.8, linestyle="--")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    ax.xaxis.set_minor_formatter(lambda x, _: f"{x:g}" if f"{x:.0e}"[0] in "25" else "")
    ax.set_xlabel(AXES[quantity])
    ax.set_ylabel("gap, in units of the loss")
    ax.grid(True, which="major", alpha=0.3)


def _curve(name: str, history: Any, quantity: str, height: str) -> tuple[Any, Any]:
    """The points of a curve that log axes can show: finite and above zero."""
    try:
        x = np.asarray(history[quantity], dtype=float)
        y = np.asarray(history[height], dtype=float)
    except KeyError as error:
        raise ValueError(f"histories: {name!r} has no key {error}") from error
    if x.shape != y.shape:
        raise ValueError(
            f"histories: {name!r} has {len(x)} entries of {quantity} but {len(y)} of {height}"
        )
    shown = np.isfinite(x) & np.isfinite(y) & (x > 0) & (y > 0)
    return x[shown], y[shown]
