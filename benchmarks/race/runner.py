"""Run a race: every solver at every lambda and tolerance, then the peers, in one process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks import datasets
from benchmarks.datasets import Dataset
from benchmarks.race import ours, peers
from benchmarks.race.config import Config

Row = dict[str, Any]
SHOWN = (
    "lambda",
    "tol",
    "fit_cpu",
    "train_cpu",
    "passes",
    "primal",
    "gap",
    "test_error",
    "chunk_f1",
)


@dataclass
class Outcome:
    """Rows of results, rows of convergence curves, and peers that could not run."""

    rows: list[Row] = field(default_factory=list)
    curves: list[Row] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)


def run(config: Config) -> Outcome:
    """Run the whole race of one data set."""
    data = datasets.load(config.data, **config.options)
    outcome = Outcome()
    for regularization in config.lambdas:
        for tol in config.tols:
            for name in config.solvers:
                _race_one(config, data, name, regularization, tol, outcome)
    for name in config.peers:
        if not peers.available(name):
            outcome.absent.append(name)
        elif peers.KINDS[name] == data.kind:
            outcome.rows += _peer_rows(config, data, name, outcome.rows)
    for row in outcome.rows:
        row.update({"data": data.name, "examples": data.size, "features": data.width})
    return outcome


def _race_one(
    config: Config, data: Dataset, name: str, regularization: float, tol: float, outcome: Outcome
) -> None:
    budget = {"max_passes": config.max_passes, "max_seconds": config.max_seconds}
    row, svm = ours.row(data, name, regularization, tol, config.repeats, budget)
    _announce(row)
    outcome.rows.append(row)
    label = {"solver": name, "lambda": regularization, "tol": tol}
    outcome.curves += ours.curve(svm, label)


def _peer_rows(config: Config, data: Dataset, name: str, rows: list[Row]) -> list[Row]:
    setting = peers.Setting(
        regularization=config.lambdas[0],
        repeats=config.repeats,
        c2=config.c2,
        max_iterations=config.peer_iterations,
    )
    if name != "liblinear":
        found = [peers.PEERS[name](data, setting)]
    else:
        found = [_liblinear_beside(row, data, setting) for row in _goals(rows)]
    for row in found:
        _announce(row)
    return found


def _goals(rows: list[Row]) -> list[Row]:
    """Return the rows of the race's first solver: LIBLINEAR must reach their primals."""
    return [row for row in rows if row["solver"] == rows[0]["solver"]]


def _liblinear_beside(goal: Row, data: Dataset, setting: peers.Setting) -> Row:
    asked = peers.Setting(goal["lambda"], goal["primal"], setting.repeats)
    row = peers.liblinear(data, asked)
    return row | {"lambda": goal["lambda"], "tol": goal["tol"]}


def _announce(row: Row) -> None:
    values = [f"{name} {row[name]:.5g}" for name in SHOWN if row.get(name) is not None]
    print(f"{row['solver']:>18}  " + "  ".join(values) + f"  {row.get('status', '')}", flush=True)
