"""Bars: the cost of a prototype of the default solver, and the allowed factors over it.

They are CPU seconds on one core of another machine, with an error of about 25 %. Passes, and ratios
to
peers of the same run, carry over to this machine; seconds carry over only if the machines are
alike.
Inputs are raw. OCR: mean Hamming loss, folds 1 to 9. CoNLL-2000: word and tag at -2..2 and a bias,
counted Hamming loss. Gaps are in units of the loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.race.config import Config

Row = dict[str, Any]


@dataclass(frozen=True)
class Bar:
    """Passes and CPU seconds to a gap, for training alone."""

    passes: float
    seconds: float


BARS: dict[tuple[str, float, float], Bar] = {
    ("ocr", 1.0, 0.001): Bar(5.2, 0.077),
    ("ocr", 0.1, 0.001): Bar(8.0, 0.166),
    ("ocr", 0.01, 0.001): Bar(11.2, 0.253),
    ("ocr", 0.001, 0.001): Bar(20.0, 0.493),
    ("conll2000", 0.01, 0.1): Bar(4.4, 0.42),
    ("conll2000", 0.01, 0.01): Bar(6.6, 0.68),
    ("conll2000", 0.01, 0.001): Bar(8.7, 1.10),
    ("conll2000", 0.001, 0.1): Bar(7.2, 0.83),
    ("conll2000", 0.001, 0.01): Bar(11.9, 1.76),
    ("conll2000", 0.001, 0.001): Bar(18.4, 2.55),
}
TRAINING_FACTOR = 1.3  # allowed passes and training seconds relative to the bar
# allowed seconds of the whole fit relative to the bar's seconds
FIT_FACTOR = {"ocr": 2.0, "conll2000": 1.5}
CONTENDERS = ("auto", "proximal")


@dataclass(frozen=True)
class Rival:
    """The factor by which our CPU time must be below a rival's; `measure` is the compared column."""

    data: str
    solver: str
    factor: float
    measure: str
    regularization: float | None = None  # lambda; None: at every lambda


RIVALS = (
    # Compare training alone, and the whole fit: preparing the data costs both the same.
    Rival("ocr", "bcfw", 15.0, "train_cpu", 0.01),
    Rival("ocr", "bcfw", 15.0, "fit_cpu", 0.01),
    Rival("ocr", "crfsuite-lbfgs", 50.0, "train_cpu", 0.01),
    Rival("usps", "liblinear", 2.0, "fit_cpu"),
    Rival("conll2000", "crfsuite-ap", 20.0, "train_cpu"),
)
CHUNK_F1 = 0.938  # to be reached with rich features


def compare(config: Config, rows: list[Row]) -> list[str]:
    """Return one line per bar that the rows can be compared with."""
    ours = [row for row in rows if row["solver"] in CONTENDERS]
    if config.options.get("rich"):
        return [_against_f1(row) for row in ours]
    if config.options.get("inputs", "raw") != "raw":
        return []
    lines = [line for row in ours for line in _against_bar(config.data, row)]
    for rival in RIVALS:
        if rival.data == config.data:
            lines += [line for row in ours for line in _against_rival(rival, row, rows)]
    return lines


def _against_f1(row: Row) -> str:
    reached = row["chunk_f1"] >= CHUNK_F1
    return f"{_where(row)}: F1 {row['chunk_f1']:.4f} (asked {CHUNK_F1}) {_verdict(reached)}"


def _against_bar(data: str, row: Row) -> list[str]:
    bar = BARS.get((data, row["lambda"], row["tol"]))
    if bar is None:
        return []
    checks = [
        ("passes", row["passes"], bar.passes, TRAINING_FACTOR),
        ("training CPU s", row["train_cpu"], bar.seconds, TRAINING_FACTOR),
        ("fit CPU s", row["fit_cpu"], bar.seconds, FIT_FACTOR[data]),
    ]
    return [
        f"{_where(row)}: {name} {value:.3g}, bar {limit:g}, ratio {value / limit:.2f} "
        f"(allowed {factor:g}) {_verdict(value <= factor * limit)}"
        for name, value, limit, factor in checks
    ]


def _against_rival(rival: Rival, row: Row, rows: list[Row]) -> list[str]:
    if rival.regularization not in (None, row["lambda"]):
        return []
    lines = []
    for other in rows:
        # A peer with another objective has one row for all lambdas and tolerances.
        same = all(other.get(name) in (None, row[name]) for name in ("lambda", "tol"))
        if other["solver"] != rival.solver or not same:
            continue
        ratio = other[rival.measure] / row[rival.measure]
        scores = "chunk_f1" if "chunk_f1" in row else "test_error"
        lines.append(
            f"{_where(row)}: {ratio:.1f} times less {rival.measure} than {rival.solver} "
            f"(asked {rival.factor:g}) {_verdict(ratio >= rival.factor)}; "
            f"{scores} {row[scores]:.4f} against {other[scores]:.4f}"
        )
    return lines


def _where(row: Row) -> str:
    return f"{row['solver']} lambda {row['lambda']:g} gap {row['tol']:g}"


def _verdict(reached: bool) -> str:
    return "reached" if reached else "MISSED"
