"""Table II (sizes), Table V (SDCD beside SDM) and Figure 2 (dual and accuracy against CPU time) on
tags.

The treebank sample is a tenth of the paper's WSJPOS. Brown is the same corpus, but the paper does
not
print its split. `--sentences N` takes N training sentences.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.papers import rows as reading
from benchmarks.papers.summed_error.figures import distances, draw
from benchmarks.papers.summed_error.measure import fit, say, walk
from benchmarks.tagging import tags
from maxmargin import models

Row = dict[str, Any]
# n, n_test, d, k, N; then seconds, accuracy and sum |V_i| of SDCD (C = 0.01) and of SDM (C = 0.1).
SIZES = {
    "POS": (7200, 1681, 404_990, 42, 17_011_344),
    "WSJPOS": (35_531, 1681, 446_180, 42, 18_741_324),
    "Brown": (48_242, 9098, 290_843, 185, 53_840_180),
}
TABLE5 = {
    "POS": ((715, 53), (96.02, 96.03), (133_782, 38_891)),
    "WSJPOS": ((1588, 242), (96.61, 96.67), (305_533, 114_891)),
    "Brown": ((10_832, 1836), (97.46, 97.56), (395_130, 146_127)),
}
STANDS_FOR = {"treebank-tags": "WSJPOS", "brown-tags": "Brown"}
PAPERS = ("sdcd", "cutting planes")


def tagged(task: str, options: argparse.Namespace) -> Any:
    """Load sentences with tags."""
    corpus = task.removesuffix("-tags")
    return tags(corpus, options.sentences, small=options.small)


def sizes(config: Row, options: argparse.Namespace) -> list[Row]:
    """Make Table II."""
    found = []
    for task in options.tasks or config["table5"]["tasks"]:
        data = tagged(task, options)
        labels = len({label for y in data.Y_train for label in y})
        ours = (data.size, len(data.Y_test), data.width, labels, data.width * labels + labels**2)
        row: Row = {"task": task, "paper": STANDS_FOR[task]}
        for name, own, theirs in zip(
            ("n", "n_test", "d", "k", "N"), ours, SIZES[STANDS_FOR[task]], strict=True
        ):
            row |= {name: own, f"paper_{name}": theirs}
        found.append(row)
        say(row)
    return found


def table5(config: Row, options: argparse.Namespace) -> list[Row]:
    """Make Table V: the summed error beside the maximum."""
    own, found = config["table5"], []
    for task in options.tasks or own["tasks"]:
        data, most = tagged(task, options), options.seconds or own["cpu"]
        for column, (name, weight) in enumerate((("sdcd", "weight"), ("sdm", "sdm_weight"))):
            row = {"task": task, "n": data.size, "method": name, "C": own[weight]}
            if name == "sdcd":
                method = config["methods"]["sdcd"]
                *_, last = walk(data, own[weight], method, config["tol"], [most])
                row |= last
            else:
                row |= maximum(data, own[weight], config["tol"], most)
            names, theirs = ("seconds", "accuracy", "violators"), TABLE5[STANDS_FOR[task]]
            row |= {f"paper_{key}": pair[column] for key, pair in zip(names, theirs, strict=True)}
            found.append(row)
            say(row)
    return found


def maximum(data: Any, C: float, tol: float, most: float) -> Row:
    """Train for the maximum by SDM; the gap is the gap of the full problem."""
    method: Row = {"solver": "SDM", "settings": {}}
    done = fit(models.Chain(), data.X_train, data.Y_train, C, method, tol, most, "max")
    return done.row() | {"accuracy": 100 * done.svm.score(data.X_test, data.Y_test)}


def figure2(config: Row, options: argparse.Namespace) -> list[Row]:
    """Make Figure 2: the dual after each step, and the accuracy at growing budgets."""
    own, found = config["figure2"], []
    most = options.seconds or max(own["budgets"])
    for task in options.tasks or own["tasks"]:
        data = tagged(task, options)
        budgets = [each for each in own["budgets"] if each <= most]
        for name in PAPERS:
            method = config["methods"][name]
            for point in walk(data, own["weight"], method, config["tol"], budgets):
                found.append({"task": task, "method": name} | point)
                if "budget" in point:
                    say(found[-1])
    found = distances(found)
    columns = {"distance": "relative distance of the dual", "accuracy": "test accuracy, %"}
    draw(sorted(found, key=lambda row: row["cpu"]), columns, options.out / "figure2.png")
    return found


def says_table5(rows: Sequence[reading.Row]) -> list[str]:
    """Describe the ratios of SDCD to SDM."""
    found = []
    for task in reading.values(rows, "task"):
        sdcd, sdm = (
            reading.chosen(rows, task=task, method=method)[0] for method in ("sdcd", "sdm")
        )
        outputs = reading.over(sdcd, sdm, "violators")
        theirs = [a / b for a, b in (TABLE5[STANDS_FOR[task]][k] for k in (0, 2))]
        found.append(
            f"{task}: {ended(sdm)}; {ended(sdcd)}{ratio(sdcd, sdm)} (the paper: {theirs[0]:.1f} times the "
            "time of SDM). SDCD keeps "
            f"{reading.short(outputs)} times as many outputs (the paper {theirs[1]:.1f}); its accuracy "
            f"differs by {reading.number(sdcd, 'accuracy') - reading.number(sdm, 'accuracy'):+.2f} points."
        )
    return found


def ratio(sdcd: reading.Row, sdm: reading.Row) -> str:
    """Say how many times longer SDCD took, if both reached their gaps."""
    if {sdcd["finished"], sdm["finished"]} != {"True"}:
        return ""
    return f": {reading.short(reading.over(sdcd, sdm, 'cpu'))} times as long"


def ended(row: reading.Row) -> str:
    """Say whether a method reached its gap."""
    how = "reached its gap" if row["finished"] == "True" else "did not reach its gap"
    return f"{row['method'].upper()} {how} in {reading.short(reading.number(row, 'cpu'))} s"


def says_figure2(rows: Sequence[reading.Row]) -> list[str]:
    """Describe the accuracies at the budgets."""
    found = []
    for task in reading.values(rows, "task"):
        for method in PAPERS:
            own = [row for row in reading.chosen(rows, task=task, method=method) if row["budget"]]
            points = ", ".join(
                f"{reading.number(r, 'accuracy'):.1f} after {reading.short(reading.number(r, 'cpu'))} s"
                for r in own
            )
            found.append(f"{task}, {method}: {points}.")
    return [*found, "The paper: SDCD has a better accuracy much earlier."]
