"""Plots with Matplotlib. Each function draws into the given axes or makes a figure, and returns the axes.

plot_convergence(svm).figure.savefig("curve.png")

``convergence_plot`` and ``validation_plot`` are the deprecated names of an earlier version. They return the
figure, and write it to a file if a path is given.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from os import PathLike
from types import SimpleNamespace
from typing import Any

import numpy as np

from maxmargin.metrics import confusion

AXES = {"passes": "passes over the examples", "seconds": "seconds"}


def drawn_into(ax: Any, size: tuple[float, float] = (6, 4)) -> Any:
    """Return the given axes, or new ones. Only this function imports Matplotlib."""
    if ax is not None:
        return ax
    # Figure is used without pyplot: no window system is needed, and there is no global state.
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib; install it with pip install maxmargin[plots]"
        ) from error
    return Figure(figsize=size, layout="constrained").subplots()


def plot_convergence(
    trained: Any, ax: Any = None, *, against: str = "passes", tol: float | None = None
) -> Any:
    """Plot the certified gap (solid) and its running estimate (dotted) of one or several trainings.

    Parameters
    ----------
    trained : a fitted estimator, or a mapping from names to estimators or their ``history_``
    ax : Matplotlib axes; None draws into a new figure.
    against : "passes" or "seconds"
    tol : draws a line at this gap
    """
    named = trained if isinstance(trained, Mapping) else {"certified gap": trained}
    if not named:
        raise ValueError("trained: expected at least one training, got none")
    if against not in AXES:
        raise ValueError(f"against: expected 'passes' or 'seconds', got {against!r}")
    histories = {name: getattr(own, "history_", own) for name, own in named.items()}
    curves = [
        (name, *(points(name, history, against, height) for height in ("gap", "estimate")))
        for name, history in histories.items()
    ]
    ax = drawn_into(ax)
    for index, (name, certified, estimated) in enumerate(curves):
        color = f"C{index % 10}"
        ax.plot(*certified, color=color, marker=".", label=name)
        ax.plot(*estimated, color=color, linestyle=":", linewidth=1.2)
    ax.plot([], [], color="gray", linestyle=":", label="running estimates")
    if tol is not None:
        ax.axhline(tol, color="gray", linewidth=0.8, linestyle="--")
    ax.set(xscale="log", yscale="log", xlabel=AXES[against], ylabel="gap, in units of the loss")
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    ax.xaxis.set_minor_formatter(lambda x, _: f"{x:g}" if f"{x:.0e}"[0] in "25" else "")
    ax.grid(True, which="major", alpha=0.3)
    ax.legend(fontsize="small")
    return ax


def points(name: str, history: Any, across: str, up: str) -> tuple[np.ndarray, np.ndarray]:
    """The points of a curve that logarithmic axes can show: finite and above zero."""
    try:
        x = np.asarray(history[across], dtype=float)
        y = np.asarray(history[up], dtype=float)
    except (KeyError, TypeError):
        raise ValueError(f"trained: {name!r} has no history with {across!r} and {up!r}") from None
    if x.shape != y.shape:
        raise ValueError(f"trained: {name!r} has {len(x)} entries of {across} but {len(y)} of {up}")
    shown = np.isfinite(x) & np.isfinite(y) & (x > 0) & (y > 0)
    return x[shown], y[shown]


def path_of(search: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """The values of C and their scores (folds, values) of a search or a path; None if it has no scores."""
    Cs = np.asarray(getattr(search, "Cs_", getattr(search, "Cs", None)))
    scores = getattr(search, "scores_", getattr(search, "scores", None))
    if scores is None or Cs.ndim != 1:
        return None
    return Cs.astype(float), np.atleast_2d(np.asarray(scores, dtype=float))


def plot_path(search: Any, ax: Any = None) -> Any:
    """Plot the score against C: each fold (thin), the mean of the folds (thick), and the best C.

    Parameters
    ----------
    search : a fitted StructuralSVMCV or MulticlassSVCCV, or the result of ``regularization_path`` with
        ``validation``
    ax : Matplotlib axes; None draws into a new figure.
    """
    found = path_of(search)
    if found is None:
        raise ValueError(
            "search: expected a fitted estimator that chose C, or a path with validation scores, got "
            f"{type(search).__name__}"
        )
    Cs, scores = found
    ax, means, several = drawn_into(ax), scores.mean(axis=0), len(scores) > 1
    for fold in scores if several else ():
        ax.plot(Cs, fold, color="gray", linewidth=0.8, alpha=0.6)
    ax.plot(Cs, means, color="C0", marker="o", label="mean of folds" if several else "score")
    if not np.isnan(means).all():
        chosen = Cs[int(np.nanargmax(means))]
        ax.axvline(chosen, color="C1", linestyle="--", label=f"C = {chosen:.3g}")
    ax.set(xscale="log", xlabel="C", ylabel="score")
    ax.grid(True, which="major", alpha=0.3)
    ax.legend(fontsize="small")
    return ax


def plot_confusion(Y: Any, P: Any, ax: Any = None, *, labels: Any = None) -> Any:
    """Plot how often each true label was predicted as each label; colours show shares of a row.

    Parameters
    ----------
    Y, P : true and predicted outputs: labels, or label sequences
    ax : Matplotlib axes; None draws into a new figure.
    labels : the labels of the rows and columns, in this order; None: all labels that occur
    """
    found = confusion(Y, P, labels)
    counts, names = np.asarray(found), [str(label) for label in found.rows]
    side = max(4.0, 0.4 * len(names))
    ax = drawn_into(ax, (side + 1, side))
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for i, j in zip(*np.nonzero(counts), strict=True):
        color = "white" if shares[i, j] > 0.5 else "black"
        ax.text(j, i, str(counts[i, j]), ha="center", va="center", color=color, fontsize="small")
    ax.set_xticks(range(len(names)), names, rotation=90)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="predicted", ylabel="true")
    return ax


def plot_weights(
    svm: Any, label: Any, ax: Any = None, *, k: int = 10, shape: tuple[int, int] | None = None
) -> Any:
    """Plot the features with the largest weights for and against a label as bars, or all weights as an image.

    Parameters
    ----------
    svm : a fitted estimator whose model names its weights (docs/inspection.md)
    ax : Matplotlib axes; None draws into a new figure.
    k : how many features on either side
    shape : (height, width) if the features are pixels: blue speaks for the label, red against it
    """
    if shape is not None:
        weights = pixels_of(svm, label, shape)
        largest = float(np.abs(weights).max())
        ax = drawn_into(ax, (4, 4))
        ax.imshow(weights, cmap="RdBu", vmin=-largest or None, vmax=largest or None)
        ax.set(xticks=[], yticks=[], title=str(label))
        return ax
    sides = [svm.top_features(label, k, against) for against in (True, False)]
    names = [str(name) for side in sides for name in side.rows]
    values = np.concatenate([side["weight"] for side in sides])
    order = np.argsort(values, kind="stable")
    ax = drawn_into(ax, (6, 1 + 0.25 * len(names)))
    ax.barh(
        range(len(names)), values[order], color=["C3" if v < 0 else "C0" for v in values[order]]
    )
    ax.set_yticks(range(len(names)), [names[i] for i in order])
    ax.set(xlabel="weight", title=str(label))
    return ax


def pixels_of(svm: Any, label: Any, shape: Any) -> np.ndarray:
    """The weights of a label as an image; raises ValueError if the shape has another size."""
    weights = svm.feature_weights(label)
    if len(shape) != 2 or shape[0] * shape[1] != len(weights):
        raise ValueError(
            f"shape must be (height, width) of {len(weights)} features, got {tuple(shape)}"
        )
    return weights.reshape(shape)


Path = str | PathLike[str] | None


def warn_renamed(old: str, new: str) -> None:
    """Warn that a function is deprecated, and name its replacement."""
    warnings.warn(f"{old} is deprecated, use {new}", FutureWarning, stacklevel=3)


def convergence_plot(
    histories: Mapping[str, Any],
    path: Path = None,
    ax: Any = None,
    *,
    against: str = "passes",
    tol: float | None = None,
) -> Any:
    """Deprecated: draw ``plot_convergence`` into ``ax``, or into two panels; return the figure."""
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
    """Deprecated: draw ``plot_path`` of values of C and their scores; return the figure."""
    warn_renamed("validation_plot", "plot_path(search, ax).figure")
    Cs, scores = np.asarray(Cs, dtype=float), np.atleast_2d(np.asarray(scores, dtype=float))
    if Cs.ndim != 1 or scores.ndim != 2 or scores.shape[1] != len(Cs):
        raise ValueError(
            f"scores: expected one for each of {Cs.size} values of C, got shape {scores.shape}"
        )
    return saved(plot_path(SimpleNamespace(Cs_=Cs, scores_=scores), ax).figure, path)


def saved(figure: Any, path: Path) -> Any:
    """Write the figure to the path, if one is given, and return the figure."""
    if path is not None:
        figure.savefig(path, dpi=120)
    return figure
