"""Tables III and IV: CPU seconds and test accuracy on OCR letters.

Each fit is trained on one fold and tested on the other nine.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.datasets import ocr_letters
from benchmarks.papers import rows as reading
from benchmarks.papers.summed_error.measure import Fit, fit, say
from maxmargin import models

Row = dict[str, Any]
FOLDS = range(10)
# Table III: training seconds, OCR0 .. OCR9, by method and C.
SECONDS = {
    ("cutting planes", 0.01): "115.36 99.37 119.97 132.31 142.08 113.14 156 175.91 133.95 113.33",
    ("sdcd", 0.01): "24.89 23.41 20.84 25.44 29.35 25.62 34.66 23.07 30.87 24.95",
    ("cutting planes", 0.1): "595.13 628.05 474.26 432.04 1288.68 467.75 418.11 378.49 511.23 1193.12",
    ("sdcd", 0.1): "37.37 38.73 36.73 49.69 38.71 33.47 54.11 68.39 49.2 37.63",
    ("cutting planes", 1.0): "4181.79 9013.09 4928.94 9628 8971.55 7657.24 7134.54 4904.36 4118.72 3822.71",
    ("sdcd", 1.0): "106.39 179.53 123.81 116.5 178.28 148.41 184.26 193.44 146.02 116.76",
}  # fmt: skip
# Table IV: test accuracy in percent.
ACCURACY = {
    ("cutting planes", 0.01): "75.46 76.05 75.97 76.8 76.43 75.87 76.44 75.66 76.44 75.78",
    ("sdcd", 0.01): "74.43 75.4 75.3 76.17 75.47 75.24 75.99 74.8 75.6 75.02",
    ("cutting planes", 0.1): "73.46 74.14 74.1 75.19 75.28 73.52 74.2 73.78 75.5 73.84",
    ("sdcd", 0.1): "73.86 74.54 74.66 75.56 75.44 73.88 74.43 74.02 75.62 74.57",
    ("cutting planes", 1.0): "71.15 71.56 72.25 73 72.74 71.24 71.63 71.18 73.38 71.74",
    ("sdcd", 1.0): "71.3 72.05 72.44 73.15 72.93 71.39 71.68 71.68 73.31 71.85",
}
OF_PAPER = {"sdcd as printed": "sdcd", "sdcd": "sdcd", "cutting planes": "cutting planes"}


def entry(
    table: dict[tuple[str, float], str], method: str, weight: float, fold: int
) -> float | None:
    """Return a number of a table, or None for a method that the paper does not have."""
    row = table.get((OF_PAPER.get(method, method), weight))
    return None if row is None else float(row.split()[fold])


def run(config: Row, options: argparse.Namespace) -> list[Row]:
    """Run all folds, C and methods."""
    own, found = config["ocr"], []
    methods = {
        k: v for k, v in config["methods"].items() if k in (options.methods or own["methods"])
    }
    for fold in options.folds if options.folds is not None else own["folds"]:
        data = ocr_letters(test_folds=[f for f in FOLDS if f != fold], small=options.small)
        for weight in options.weights or own["weights"]:
            curves: dict[str, list[Row]] = {}
            for name, method in methods.items():
                limits = config["tol"], own["cpu"]
                done = fit(models.Chain(), data.X_train, data.Y_train, weight, method, *limits)
                row = {"fold": fold, "C": weight, "method": name, **done.row()}
                found.append(row | beside(done, data, name, weight, fold, curves))
                say(found[-1])
    return found


def beside(done: Fit, data: Any, name: str, weight: float, fold: int, curves: dict) -> Row:
    """Return the accuracy, the paper's numbers, and when SDCD reached this method's final dual."""
    curves[name] = done.curve
    return {
        "accuracy": 100 * done.svm.score(data.X_test, data.Y_test),
        "paper_seconds": entry(SECONDS, name, weight, fold),
        "paper_accuracy": entry(ACCURACY, name, weight, fold),
        "sdcd_cpu": reaches(curves.get("sdcd", []), done.svm.certificate_.dual),
    }


def reaches(curve: list[Row], dual: float) -> float | None:
    """Return the CPU seconds until a curve reached this dual, or None."""
    return next((point["cpu"] for point in curve if point["dual"] >= dual), None)


def says(rows: Sequence[reading.Row]) -> list[str]:
    """Describe differences of accuracies, and the order of the two methods."""
    found = []
    for weight in reading.values(rows, "C"):
        for method in reading.values(rows, "method"):
            own = reading.chosen(rows, C=weight, method=method)
            paired = [row for row in own if row["paper_accuracy"]]
            cpu = sorted(reading.number(row, "cpu") for row in own)[len(own) // 2]
            sentence = f"C = {weight}, {method}: median of {reading.short(cpu)} s"
            if paired:
                away = [
                    abs(reading.number(r, "accuracy") - reading.number(r, "paper_accuracy"))
                    for r in paired
                ]
                theirs = sorted(reading.number(row, "paper_seconds") for row in paired)[
                    len(paired) // 2
                ]
                sentence += f" (the paper {reading.short(theirs)} s)"
                sentence += f"; accuracies at most {max(away):.2f} points apart"
            found.append(sentence + f"; {ends(own)}.")
    return found


def ends(rows: Sequence[reading.Row]) -> str:
    """Describe how the fits ended."""
    kinds = [row["status"] for row in rows]
    return ", ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))
