"""python -m benchmarks.papers.gdmm [--parts NAME ...] [--tasks NAME ...] [--out DIR] [--small]

Chains with many labels, and sets of labels (Yen et al., 2016).

  domain   cost of the exact argmax against the number of labels, beside full Viterbi
  curves   objective and test error against CPU time, for the methods and tasks of config.json
  whole    "auto" on all 155,144 clauses of the pinyin task: time, memory, accuracy
  labels   sets of labels with weights for all pairs: cost of the joint oracle against the number of labels;
           objective of the linear relaxation against CPU time
  many     the same for a thousand labels, on some and on all training examples
  iterations  GDMM, Soft-BCFW and the algorithms as printed in passes and in time; the linear rate
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.papers.gdmm import figures
from benchmarks.papers.gdmm.curves import curves
from benchmarks.papers.gdmm.domain import cost_of_domains
from benchmarks.papers.gdmm.iterations import passes_and_time
from benchmarks.papers.gdmm.labels import label_curves, oracle_costs
from benchmarks.papers.gdmm.tasks import load
from benchmarks.papers.gdmm.whole import train_on_all
from benchmarks.timing import write_csv

Row = dict[str, Any]
PARTS = ("domain", "curves", "whole", "labels", "many", "iterations")
CONFIG = Path(__file__).with_name("config.json")


def ends(part: str) -> str:
    """Describe how the time limits of a full run end its fits; empty for parts without limits."""
    config = json.loads(CONFIG.read_text(encoding="utf-8"))
    sets = config["labels"]
    own = {
        "curves": config["tasks"],
        "labels": sets["tasks"],
        "many": sets["many"],
        "iterations": config["iterations"]["tasks"],
    }
    if part not in own:
        return ""
    found = [task["seconds"] for task in own[part]]
    if own[part] in (sets["tasks"], sets["many"]):
        return f"a method ends after {min(found)} to {max(found)} s of CPU (by task), even inside a step"
    return (
        f"a method ends with the step that reaches {min(found)} to {max(found)} s of CPU (by task)"
    )


def all_curves(config: dict[str, Any], tasks: Sequence[str], small: bool) -> list[Row]:
    """Make the curves of every requested task."""
    rows: list[Row] = []
    for task in config["tasks"]:
        if tasks and task["data"] not in tasks:
            continue
        data = load(task["data"], task.get("most"), small)
        seconds = 0.02 if small else task["seconds"]
        methods = {name: config["methods"][name] for name in task["methods"]}
        rows += curves(data, task["C"], methods, seconds)
    return rows


def of_sets(
    part: str, tasks: list[Row], own: Row, asked: argparse.Namespace
) -> dict[str, list[Row]]:
    """Make the curves for sets of labels, and measure the cost of their joint oracle."""
    tasks = [task for task in tasks if not asked.tasks or task["data"] in asked.tasks]
    if asked.small:
        few = {"sample": 20, "proven": ["gdmm"]} if part == "many" else {}
        tasks = [{**tasks[0], **few, "seconds": 0.05}]
    oracle = "oracle" if part == "labels" else "oracle_many"
    return {
        oracle: oracle_costs(tasks, own["lambda"], asked.small),
        part: label_curves(tasks, own["lambda"], own["methods"], asked.small),
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, list[Row]]:
    """Run the parts; write a table and a figure of each."""
    parser = argparse.ArgumentParser(prog="benchmarks.papers.gdmm")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tasks", nargs="+", default=[])
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of a method, at most")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/gdmm"))
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args(arguments)
    config = json.loads(CONFIG.read_text(encoding="utf-8"))
    sets = config["labels"]
    for tasks in (config["tasks"], sets["tasks"], sets["many"], config["iterations"]["tasks"]):
        for task in tasks:
            task["seconds"] = min(task["seconds"], asked.seconds)
    results = {}
    if "domain" in asked.parts:
        results["domain"] = cost_of_domains(asked.small)
    if "curves" in asked.parts:
        results["curves"] = all_curves(config, asked.tasks, asked.small)
    if "whole" in asked.parts:
        results["whole"] = train_on_all(asked.small)
    for part, kind in (("labels", "tasks"), ("many", "many")):
        if part in asked.parts:
            results |= of_sets(part, sets[kind], sets, asked)
    if "iterations" in asked.parts:
        own = config["iterations"]
        chosen = [t for t in own["tasks"] if not asked.tasks or t["data"] in asked.tasks]
        found = passes_and_time({**own, "tasks": chosen}, asked.small)
        results["iterations"], results["rates"] = found
    for name, rows in results.items():
        write_csv(asked.out / f"{name}.csv", rows)
        if hasattr(figures, name):
            getattr(figures, name)(rows, asked.out / f"{name}.png")
    return results


if __name__ == "__main__":
    main()
