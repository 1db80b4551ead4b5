"""python -m benchmarks.papers.summed_error [WHAT ...] [--config FILE] [--folds N ...] [--out DIR] [--small]

Balamurugan, Shevade and Babu, Efficient Algorithms for Linear Summed Error Structural SVMs. WHAT:

ocr        CPU seconds and test accuracy, trained on one fold, tested on nine        Tables III and IV
figure1    distance of the dual to its end against CPU, covertype and newsgroups     Figure 1
figure2    the same with the test accuracy, tags of the treebank and of Brown        Figure 2
table5     summed error by SDCD beside the maximum by SDM                            Table V

"sdcd" and "cutting planes" solve what the paper solves: the problem reduced to the violators that argmax
searches have found. "sdcd, all violators" solves the problem itself. All are limited in CPU seconds, and stop
at a gap (of what they solve) of tol.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import stand_ins
from benchmarks.datasets import ocr_letters
from benchmarks.papers.cutting_plane.tasks import covertype
from benchmarks.papers.dual_coordinate.__main__ import newsgroups
from benchmarks.papers.summed_error.figures import distances, draw
from benchmarks.papers.summed_error.measure import fit
from benchmarks.papers.summed_error.paper import ACCURACY, SECONDS, entry
from benchmarks.tagging import tags
from benchmarks.timing import write_csv
from maxmargin import models

Row = dict[str, Any]
CONFIG = Path(__file__).with_name("config.json")
FOLDS = range(10)
PAPERS = ("sdcd", "cutting planes")
BROWN = 10_000  # training sentences, at most


def say(row: Row) -> None:
    """A row as a line."""
    shown = (f"{k} {v:.5g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
    print(", ".join(shown), flush=True)


def chosen(config: Row, options: argparse.Namespace) -> dict[str, Row]:
    """The methods that were asked for."""
    return {
        k: v for k, v in config["methods"].items() if k in (options.methods or config["methods"])
    }


def ocr(config: Row, options: argparse.Namespace) -> list[Row]:
    """Tables III and IV."""
    own, rows = config["ocr"], []
    for fold in options.folds if options.folds is not None else own["folds"]:
        data = ocr_letters(test_folds=[f for f in FOLDS if f != fold], small=options.small)
        for weight in options.weights or own["weights"]:
            curves: dict[str, list[Row]] = {}
            for name, method in chosen(config, options).items():
                found = fit(
                    models.Chain(),
                    data.X_train,
                    data.Y_train,
                    weight,
                    method,
                    config["tol"],
                    own["cpu"],
                )
                row = {"fold": fold, "C": weight, "method": name, **found.row()}
                row["accuracy"] = 100 * found.svm.score(data.X_test, data.Y_test)
                row["paper_seconds"] = entry(SECONDS, name, weight, fold)
                row["paper_accuracy"] = entry(ACCURACY, name, weight, fold)
                curves[name] = found.curve
                # When SDCD had the dual that cutting planes end with: time at equal objective.
                row["sdcd_cpu"] = reaches(curves.get("sdcd", []), row["dual"])
                rows.append(row)
                say(row)
    return rows


def reaches(curve: list[Row], dual: float) -> float | None:
    """CPU seconds until a curve had this dual."""
    return next((point["cpu"] for point in curve if point["dual"] >= dual), None)


def classes(name: str, small: bool) -> tuple[Any, Any, Any]:
    """Model, rows and labels of a task with classes."""
    if small:
        X, y = stand_ins.digits(examples=100)
        return models.Multiclass(), X / 16, y
    if name == "covertype":
        return models.Multiclass(bias=1.0), *covertype()
    return models.Multiclass(), *newsgroups()


def figure1(config: Row, options: argparse.Namespace) -> list[Row]:
    """All classes are in V_i: both methods solve the whole problem."""
    own, rows = config["figure1"], []
    for task in own["tasks"]:
        model, X, y = classes(task, options.small)
        for name in PAPERS:
            found = fit(
                model, X, y, own["weight"], config["methods"][name], config["tol"], own["cpu"]
            )
            say({"task": task, "method": name, **found.row()})
            rows += [{"task": task, "method": name} | point for point in found.curve]
    rows = distances(rows)
    draw(rows, {"distance": "relative distance of the dual"}, options.out / "figure1.png")
    return rows


def tagged(task: str, small: bool) -> Any:
    """Sentences with tags."""
    corpus = task.removesuffix("-tags")
    return tags(corpus, BROWN if corpus == "brown" else None, small=small)


def figure2(config: Row, options: argparse.Namespace) -> list[Row]:
    """Accuracy at ever larger budgets, each by a fit of its own; the curve is that of the largest."""
    own, rows = config["figure2"], []
    for task in own["tasks"]:
        data = tagged(task, options.small)
        for name in PAPERS:
            for budget in own["budgets"]:
                found = fit(
                    models.Chain(),
                    data.X_train,
                    data.Y_train,
                    own["weight"],
                    config["methods"][name],
                    config["tol"],
                    budget,
                )
                accuracy = 100 * found.svm.score(data.X_test, data.Y_test)
                row = {"task": task, "method": name, "budget": budget, **found.row()}
                rows.append(row | {"accuracy": accuracy})
                say(rows[-1])
                if found.row()["finished"]:
                    break
            rows += [{"task": task, "method": name} | point for point in found.curve]
    rows = distances(rows)
    columns = {"distance": "relative distance of the dual", "accuracy": "test accuracy, %"}
    draw(sorted(rows, key=lambda row: row["cpu"]), columns, options.out / "figure2.png")
    return rows


def table5(config: Row, options: argparse.Namespace) -> list[Row]:
    """The summed error beside the maximum."""
    own, rows = config["table5"], []
    sdm = {"solver": "SDM", "settings": {}}
    runs = (
        ("sdcd", config["methods"]["sdcd"], own["weight"], "sum"),
        ("sdm", sdm, own["sdm_weight"], "max"),
    )
    for task in own["tasks"]:
        data = tagged(task, options.small)
        for name, method, weight, hinge in runs:
            found = fit(
                models.Chain(),
                data.X_train,
                data.Y_train,
                weight,
                method,
                config["tol"],
                own["cpu"],
                hinge,
            )
            row = {"task": task, "method": name, "C": weight, **found.row()}
            rows.append(row | {"accuracy": 100 * found.svm.score(data.X_test, data.Y_test)})
            say(rows[-1])
    return rows


PARTS: dict[str, Callable[[Row, argparse.Namespace], list[Row]]] = {
    "ocr": ocr,
    "figure1": figure1,
    "figure2": figure2,
    "table5": table5,
}


def main(arguments: Sequence[str] | None = None) -> dict[str, list[Row]]:
    """Config -> CSV -> figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", nargs="*", metavar="WHAT", help="default: all")
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--folds", nargs="+", type=int, choices=list(FOLDS))
    parser.add_argument("--weights", nargs="+", type=float, help="C of the OCR tables")
    parser.add_argument("--methods", nargs="+", help="of the config, for the OCR tables")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/summed_error"))
    parser.add_argument("--small", action="store_true", help="synthetic stand-in, no data needed")
    options = parser.parse_args(arguments)
    if unknown := set(options.what) - set(PARTS):
        parser.error(f"WHAT must be of {list(PARTS)}, got {sorted(unknown)}")
    config = json.loads(options.config.read_text(encoding="utf-8"))
    options.out.mkdir(parents=True, exist_ok=True)
    results = {}
    for part in options.what or PARTS:
        results[part] = PARTS[part](config, options)
        write_csv(options.out / f"{part}.csv", results[part])
    return results


if __name__ == "__main__":
    main()
