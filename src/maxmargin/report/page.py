"""One page about a fitted estimator: its certificate, its training, its weights and its mistakes.

The page is a self-contained file: it needs no network, and its only script sorts tables. It reads fitted
attributes and public methods. If an estimator lacks an attribute, the page leaves out that section.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.table import Table
from maxmargin.io.files import write_whole
from maxmargin.metrics import confusion
from maxmargin.metrics.tasks import TALLIES
from maxmargin.report.html import document, facts, html_table, paragraph, row, text
from maxmargin.report.plots import path_of, pixels_of
from maxmargin.report.svg import chart, picture

LABELS_SHOWN = 30  # labels in a heat map or among the weights by name; more are unreadable
MOST_PIXELS = 150_000  # pixels in all images together; limits the size of the page


@dataclass
class Subject:
    """The subject of a page: an estimator, and optionally labelled examples to judge it by."""

    svm: Any
    X: Any = None
    Y: Any = None
    k: int = 10
    texts: Any = None
    shape: tuple[int, int] | None = None
    search: Any = None
    predicted: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.Y is not None:
            self.predicted = self.svm.predict(self.X)

    @property
    def task(self) -> str:
        """The task of the model, a key of TALLIES; empty for a user's own model."""
        return getattr(self.svm.model_, "task", "")

    @property
    def looks_inside(self) -> bool:
        """Whether the model gives names to its weights."""
        return hasattr(self.svm, "feature_names_")

    @property
    def labels(self) -> list[Any]:
        """All labels of the model."""
        return self.svm.classes_.tolist()


def page_of(subject: Subject, title: str) -> str:
    """The page as HTML text."""
    sections = {
        "Certificate": certificate(subject),
        "Convergence": convergence(subject),
        "Support planes": planes(subject),
        "Choice of C": choice_of_c(subject),
        "Scores": scores(subject),
        "Confusion": confused(subject),
        "Calibration": calibration(subject),
        "Hardest examples": hardest(subject),
        "Weights by name": weights(subject),
        "Weights between labels": ties(subject),
        "Weights as images": images(subject),
    }
    svm = subject.svm
    about = f"{type(svm).__name__} with {type(svm.model_).__name__}, {svm.coef_.size} weights"
    return document(title, about, sections)


def write_page(path: Any, subject: Subject, title: str) -> None:
    """Write the page to a file, completely or not at all."""
    # UTF-8 cannot encode half of a surrogate pair; browsers show its character reference as unknown.
    write_whole(Path(path), page_of(subject, title).encode("utf-8", "xmlcharrefreplace"))


# Training


def certificate(subject: Subject) -> str:
    """The certificate and the cost of training, beside the options."""
    svm, c = subject.svm, subject.svm.certificate_
    proof = "proven" if c.exact else "not proven"
    values = {
        "why training ended": c.status,
        "converged": "yes" if c.converged else "no",
        "optimum at least (dual)": c.dual,
        "optimum at most (primal)": c.primal,
        f"gap, in units of the loss ({proof})": c.gap,
        "requested gap (tol)": c.tol,
        "passes": c.passes,
        "oracle calls": c.oracle_calls,
        "support planes": c.support,
        "seconds": c.seconds,
    }
    options = {
        "C": float(getattr(svm, "C_", svm.C)),
        "solver": getattr(svm, "solver_", svm.solver),
        "model": svm.model_,
        "weights": svm.coef_.size,
        "nonzero weights": int(np.count_nonzero(svm.coef_)),
        **{f"read as {k}": v for k, v in getattr(svm, "reading_", {}).items() if v},
    }
    return row([facts(values), facts(options)])


def convergence(subject: Subject) -> str:
    """Charts of the gap, the bounds and the number of cached planes against passes."""
    history = getattr(subject.svm, "history_", None)
    if not history or not set(DRAWN) <= set(history):
        return ""
    passes, tol = history["passes"], float(subject.svm.certificate_.tol)
    gaps = {name: (passes, history[key]) for name, key in GAPS.items()}
    # The first lower bounds are far below the optimum; they would flatten the rest of the curve.
    near = np.asarray(history["dual"]) >= -abs(subject.svm.certificate_.primal)
    bounds = {name: (passes[near], history[name][near]) for name in ("primal", "dual")}
    across = "passes over the examples"
    return row(
        [
            chart(gaps, (across, "gap"), (True, True), level=tol if 0 < tol < np.inf else None),
            chart(bounds, (across, "objective"), (True, False)),
            chart({"planes": (passes, history["planes"])}, (across, "planes kept"), (True, False)),
        ]
    )


DRAWN = ("passes", "gap", "estimate", "primal", "dual", "planes")
GAPS = {"certified": "gap", "running estimate": "estimate"}


def planes(subject: Subject) -> str:
    """A table of how many support planes the examples have."""
    support = getattr(subject.svm, "support_", None)
    if support is None or len(support) == 0:
        return ""
    of_each = np.bincount(np.asarray(support.blocks))
    of_each = of_each[of_each > 0]
    sizes = [1, *(2 ** np.arange(1, 32)).tolist()]
    counts = np.histogram(of_each, [0.5, *(size + 0.5 for size in sizes)])[0]
    ranges = ["1", "2", *(f"{a + 1} to {b}" for a, b in pairwise(sizes[1:]))]
    kept = np.flatnonzero(counts)
    words = f"The solution depends on {len(support)} {support.kind} of {len(of_each)} examples."
    columns = {"examples": counts[kept]}
    return paragraph(words) + html_table(
        Table(columns, [ranges[i] for i in kept], f"{support.kind} of an example")
    )


def choice_of_c(subject: Subject) -> str:
    """A chart and a table of the score of each C."""
    found = path_of(subject.svm if subject.search is None else subject.search)
    if found is None:
        return ""
    Cs, folds = found
    means = folds.mean(axis=0)
    columns = {"score": means}
    if len(folds) > 1:
        columns |= {"lowest fold": folds.min(axis=0), "highest fold": folds.max(axis=0)}
    curves = {name: (Cs, cells) for name, cells in columns.items()}
    best = None if np.isnan(means).all() else float(Cs[int(np.nanargmax(means))])
    drawn = chart(curves, ("C", "score"), (True, False), mark=best)
    return row([drawn, html_table(Table(columns, [f"{C:.4g}" for C in Cs], "C"))])


# Data


def scores(subject: Subject) -> str:
    """The scores of the predictions, in total and by label."""
    if subject.Y is None:
        return ""
    Y, P = subject.Y, subject.predicted
    values: dict[str, Any] = {"examples": len(Y)}
    if subject.task not in TALLIES:
        return row([facts({**values, "score": float(subject.svm.score(subject.X, Y))})])
    tally = TALLIES[subject.task]()
    tally.add(Y, P)
    report = tally.report()
    return row([facts(values | tally.scores()), "" if report is None else html_table(report)])


def confused(subject: Subject) -> str:
    """The confusion of labels; if there are many, of the labels with the most mistakes."""
    if subject.Y is None or subject.task not in ("multiclass", "binary", "tagging"):
        return ""
    found = confusion(subject.Y, subject.predicted)
    labels, counts = found.rows, np.asarray(found)
    wrong = counts - np.diag(np.diag(counts))
    most = np.argsort(-(wrong.sum(axis=0) + wrong.sum(axis=1)), kind="stable")[:LABELS_SHOWN]
    kept = np.sort(most)
    chosen = [labels[i] for i in kept]
    columns = {label: counts[kept, j] for label, j in zip(chosen, kept, strict=True)}
    words = "Rows are true labels, columns are predicted labels."
    if len(chosen) < len(labels):
        words += (
            f" The table shows the {len(chosen)} of {len(labels)} labels with the most mistakes."
        )
    shares = wrong_and_right(counts)[np.ix_(kept, kept)]
    return paragraph(words) + html_table(Table(columns, chosen, found.corner), shares)


def wrong_and_right(counts: np.ndarray) -> np.ndarray:
    """Shades of a confusion matrix: the square root of each share of a row, negative (red) for mistakes.

    The root makes rare mistakes visible.
    """
    shares = np.sqrt(counts / np.maximum(1, counts.sum(axis=1, keepdims=True)))
    return shares * (2 * np.eye(len(counts)) - 1)


def calibration(subject: Subject) -> str:
    """A comparison of predicted probabilities with the share of correct labels."""
    svm = subject.svm
    if subject.Y is None or not hasattr(svm, "temperature_"):
        return ""
    try:
        found = svm.reliability(subject.X, subject.Y)
    except ValueError as error:  # an unknown label, or a graph without probabilities
        return paragraph(f"The calibration cannot be computed for these examples: {error}")
    said, right, nodes = (found[name] for name in ("probability", "right", "nodes"))
    distance = float(np.abs(said - right) @ nodes / max(1, nodes.sum()))
    curves = {"model": (said, right), "perfect calibration": ([0, 1], [0, 1])}
    words = f"Temperature {svm.temperature_:.4g}; expected calibration error {distance:.4f}."
    drawn = chart(curves, ("probability of the best label", "share of correct labels"))
    return paragraph(words) + row([drawn, html_table(found)])


def hardest(subject: Subject) -> str:
    """The mistakes with the largest margins."""
    if subject.Y is None or not subject.looks_inside:
        return ""
    found = subject.svm.errors(subject.X, subject.Y, subject.k)
    columns = {name: found[name] for name in found.columns}
    if subject.texts is not None:
        columns["example"] = np.array([str(subject.texts[i]) for i in found.rows], dtype=object)
    words = (
        f"{found.title}. The margin is the score of the prediction minus the score of the truth."
    )
    return paragraph(words) + html_table(Table(columns, found.rows, "number"))


# Weights


def weights(subject: Subject) -> str:
    """The features with the largest weights for and against each label."""
    if not subject.looks_inside:
        return ""
    svm, labels = subject.svm, subject.labels
    parts = []
    for label in labels[:LABELS_SHOWN]:
        sides = [svm.top_features(label, subject.k, against) for against in (False, True)]
        shown = row(
            [f"<h3>{text(side.title)}</h3>{html_table(side)}" for side in sides if len(side)]
        )
        parts.append(f"<details><summary>{text(label)}</summary>{shown}</details>")
    return rest(labels, LABELS_SHOWN) + "".join(parts)


def rest(labels: list[Any], shown: int) -> str:
    """A note that not all labels are shown; empty if all are."""
    if len(labels) <= shown:
        return ""
    return paragraph(f"The page shows the first {shown} of {len(labels)} labels.")


def ties(subject: Subject) -> str:
    """A heat map of the weights between labels."""
    if not subject.looks_inside or subject.svm.model_.flat:
        return ""
    found = subject.svm.transitions()
    rows, columns = found.rows[:LABELS_SHOWN], found.columns[:LABELS_SHOWN]
    shown = Table({c: found[c][: len(rows)] for c in columns}, rows, found.corner)
    cells = np.asarray(shown, dtype=float)
    largest = np.max(np.abs(cells[np.isfinite(cells)]), initial=0.0)
    return rest(subject.labels, LABELS_SHOWN) + html_table(shown, cells / (largest or 1.0))


def images(subject: Subject) -> str:
    """The weights of each label as an image, if the features are pixels."""
    if subject.shape is None:
        return ""
    if not subject.looks_inside:
        raise ValueError(
            "shape must be None, because the weights of this model cannot be shown as images"
        )
    labels = subject.labels[: max(1, MOST_PIXELS // max(1, int(np.prod(subject.shape))))]
    inside = {label: pixels_of(subject.svm, label, subject.shape) for label in labels}
    largest = max(float(np.abs(w).max()) for w in inside.values())
    parts = [
        f'<figure><img alt="weights of {text(label)}" src="{picture(w, largest)}">'
        f"<figcaption>{text(label)}</figcaption></figure>"
        for label, w in inside.items()
    ]
    words = "Blue weights speak for a label, red weights against it."
    return paragraph(words) + f'<div class="row images">{"".join(parts)}</div>'
