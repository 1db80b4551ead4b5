"""python -m benchmarks.papers.fasole [--part table2 | figure1] [--data NAME ...] [--out DIR]
[--small]

Passes and time of FASOLE, SDM, BCFW and CPA beside the paper's Table 2. As in the paper, SDM is
FASOLE
that chooses the maximal violating pair, and BCFW stops at the paper's number of iterations. CPA is
the
1-slack cutting-plane algorithm without a cache. "passes" are the passes of the method; "all" adds
the
exact passes of the certificate, which the paper does not make.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import datasets
from benchmarks.datasets import Dataset
from benchmarks.papers.fasole import faces, figure1
from benchmarks.papers.fasole.table2 import ALLOWED, TABLE
from benchmarks.race import ours
from benchmarks.timing import write_csv
from maxmargin import solvers

Row = dict[str, Any]
LAMBDAS = (1.0, 0.1, 0.01, 0.001)
CONFIG = Path(__file__).with_name("config.json")


def run(config: dict[str, Any], small: bool = False) -> list[Row]:
    """Make all rows of the config, in order."""
    rows = []
    for table in config["tables"]:
        if table["data"] not in config["data"]:
            continue
        data = load(table, small)
        inputs = table["options"].get("inputs", "lbp")
        own = config | {"tol": table.get("tol", config["tol"])}
        for method in config["methods"]:
            for regularization in table.get("lambdas", LAMBDAS):
                if regularization not in config["lambdas"]:
                    continue
                row = _measure(own, data, method, regularization, small)
                rows.append({"data": data.name, "inputs": inputs} | row)
                print(_sentence(rows[-1]), flush=True)
    return rows


def load(table: dict[str, Any], small: bool) -> Dataset:
    """Load the data of a table of the config."""
    if table["data"] == "faces68":
        return faces.load(**table["options"], small=small)
    return datasets.load(table["data"], **table["options"], small=small)


def _measure(
    config: dict[str, Any], data: Dataset, method: str, regularization: float, small: bool
) -> Row:
    choice = config["methods"][method]
    entry = TABLE[data.name, method, regularization]
    make = getattr(solvers, choice["solver"])
    most = round(entry.passes) if method == "bcfw" else 1000

    def estimator() -> Any:
        solver = make(**choice["settings"])
        scaled = regularization * data.unit  # see faces.py
        return ours.estimator(data, solver, scaled, tol=config["tol"] / data.unit, max_passes=most)

    seconds = 0.3 if small else config["max_seconds"]
    timed = ours.fit(data, estimator, repeats=1, seconds=seconds)
    certificate = timed.result.certificate_
    passes = own_passes(timed.result.history_["oracle_calls"], data.size)
    return {
        "method": method,
        "lambda": regularization,
        "passes": passes,
        "all_passes": certificate.oracle_calls / data.size,
        "cpu": timed.cpu,
        "gap": certificate.gap * data.unit,
        "converged": certificate.converged,
        "paper_passes": entry.passes,
        "paper_seconds": entry.seconds,
        "paper_finished": entry.finished,
        "ratio": passes / entry.passes,
    } | data.scores(timed.result.predict(data.X_test))


def own_passes(oracle_calls: Sequence[float], size: int) -> float:
    """Count the passes of the method itself as the paper does, without the certificate's exact
    passes.

    A step calls the oracle at most once for each example; any further calls belong to an exact
    pass.
    """
    calls = np.diff(np.asarray(oracle_calls, dtype=float), prepend=0.0)
    return float(np.where(calls > size, calls - size, calls).sum() / size)


def _sentence(row: Row) -> str:
    paper = f"{row['paper_passes']:g}" if row["paper_finished"] else f"({row['paper_passes']:g})"
    verdict = ""
    if row["method"] == "fasole":
        verdict = "reached" if row["ratio"] <= ALLOWED and row["converged"] else "MISSED"
    return (
        f"{row['data']} {row['inputs']:>4} {row['method']:>13} lambda {row['lambda']:<6g} "
        f"passes {row['passes']:5.1f} (all {row['all_passes']:5.1f}) paper {paper:>5}  "
        f"CPU {row['cpu']:8.2f} s paper {row['paper_seconds']:8.1f} s  gap {row['gap']:.2g} "
        f"error {row['test_error']:.3f} {verdict}"
    )


def draw(rows: list[Row], path: Path) -> None:
    """Draw passes against lambda, one panel per data set and scaling.

    Our curves are solid, the paper's dashed.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = list(dict.fromkeys((row["data"], row["inputs"]) for row in rows))
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.5 * len(panels), 4), squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        shown = [row for row in rows if (row["data"], row["inputs"]) == panel]
        for number, method in enumerate(dict.fromkeys(row["method"] for row in shown)):
            own = [row for row in shown if row["method"] == method]
            x = [row["lambda"] for row in own]
            axis.loglog(x, [row["passes"] for row in own], f"C{number}o-", label=method)
            axis.loglog(x, [row["paper_passes"] for row in own], f"C{number}s--", mfc="none")
        axis.set(title=f"{panel[0]}, {panel[1]} inputs", xlabel="lambda")
    axes[0, 0].set_ylabel("passes to the gap (dashed: paper)")
    axes[0, 0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Read the config, write the CSV and the figure, of Table 2 or of Figure 1."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers.fasole")
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/fasole"))
    parser.add_argument("--small", action="store_true", help="synthetic stand-in, no data needed")
    parser.add_argument("--part", choices=("table2", "figure1"), default="table2")
    parser.add_argument("--data", nargs="+", default=["usps", "ocr", "faces68"])
    parser.add_argument("--lambdas", nargs="+", type=float, help="of Table 2; default: all")
    parser.add_argument("--seconds", type=float, help="for one fit, at most")
    chosen = parser.parse_args(arguments)
    config = json.loads(chosen.config.read_text(encoding="utf-8"))
    config["lambdas"] = chosen.lambdas or config["lambdas"]
    config["max_seconds"] = chosen.seconds or config["max_seconds"]
    config["data"] = chosen.data
    if chosen.part == "figure1":
        sets = {table["data"]: table for table in config["tables"] if table["data"] in chosen.data}
        loaded = [load(table, chosen.small) for table in sets.values()]
        rows = figure1.run(config, loaded, chosen.small)
    else:
        rows = run(config, chosen.small)
    write_csv(chosen.out / f"{chosen.part}.csv", rows)
    picture = chosen.out / f"{chosen.part}.png"
    (figure1.draw if chosen.part == "figure1" else draw)(rows, picture)
    print("written:", chosen.out / f"{chosen.part}.csv", picture)
    return rows


if __name__ == "__main__":
    main()
