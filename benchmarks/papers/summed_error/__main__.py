"""python -m benchmarks.papers.summed_error [WHAT ...] [--config FILE] [--folds N ...] [--out DIR]
[--small]

Balamurugan, Shevade and Babu, Efficient Algorithms for Linear Summed Error Structural SVMs. WHAT:

ocr        CPU seconds and test accuracy, trained on one fold, tested on nine        Tables III and
IV
figure1    distance of the dual to its end against CPU, covertype and newsgroups     Figure 1
sizes      numbers of sentences, features and tags                                   Table II
table5     summed error by SDCD beside the maximum by SDM                            Table V
figure2    dual and test accuracy against CPU, tags of the treebank and of Brown     Figure 2

"sdcd" and "cutting planes" solve the same problem as the paper, reduced to the violators that
argmax
searches have found, until the gap of the reduced problem is tol. "sdcd as printed" is Algorithm 2
to the
letter, with its own stopping rule: the squared steps of every example are at most 1e-4, in units of
C^2.
"sdcd, all violators" solves the full problem, and "maximum" the problem with hinge="max". All
methods
have a limit of CPU seconds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.papers.summed_error import figure1, ocr, tags
from benchmarks.timing import write_csv

Row = dict[str, Any]
CONFIG = Path(__file__).with_name("config.json")
PARTS: dict[str, Callable[[Row, argparse.Namespace], list[Row]]] = {
    "ocr": ocr.run,
    "figure1": figure1.run,
    "sizes": tags.sizes,
    "table5": tags.table5,
    "figure2": tags.figure2,
}


def main(arguments: Sequence[str] | None = None) -> dict[str, list[Row]]:
    """Read the config, write the CSV files and the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", nargs="*", metavar="WHAT", help="default: all")
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--folds", nargs="+", type=int, choices=list(ocr.FOLDS))
    parser.add_argument("--weights", nargs="+", type=float, help="C of the OCR tables")
    parser.add_argument("--methods", nargs="+", help="of the config, for the OCR tables")
    parser.add_argument("--tasks", nargs="+", help="of the config; default: all")
    parser.add_argument("--sentences", type=int, help="for training on tags; default: all")
    parser.add_argument(
        "--seconds", type=float, help="of CPU for a fit on tags or classes, at most"
    )
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
