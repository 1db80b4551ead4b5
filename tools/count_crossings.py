"""Count how often the path of ``fit`` crosses from one file of the package into another.

    python tools/count_crossings.py [--list] [scenario ...]

The rules:

- A crossing is a call from a function in one file of the package to a function in another file of it.
- Crossings are distinct by file and function of the caller and of the callee, so loops and the size of the
  data do not matter.
- If code outside of the package is between the two (a generated ``__init__``, scikit-learn, NumPy), the
  caller is the last function of the package before it.
- A comprehension, lambda or inner function belongs to the function that contains it.
- Only Python calls count, in the thread of the fit, from the call of ``fit`` until it returns. Imports and
  preparation do not count.

The counts for chain, streaming, streamed_arrays and partial_fit were 96, 208, 107 and 153 before the redesign
(commit da9f175), and 61, 104, 69 and 119 after it. tests/unit/test_crossings.py limits the first two. The
tool counts the ``maxmargin`` that Python imports: set PYTHONPATH to count another source tree.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import maxmargin
from maxmargin import data, models, solvers

PACKAGE = Path(maxmargin.__file__).parent
EXAMPLES = 200
BUDGET = 40_000  # bytes of the cache; only a part of the examples fits
Function = tuple[str, str]  # file inside the package, name of the function


class Crossings:
    """A profile function that records each crossing once, in the order of first calls."""

    def __init__(self) -> None:
        self.pairs: dict[tuple[Function, Function], None] = {}
        self._functions: dict[CodeType, Function | None] = {}

    def function_of(self, code: CodeType) -> Function | None:
        """Return file and outermost function of a code object, or None outside of the package."""
        if code not in self._functions:
            path = Path(code.co_filename)
            name = getattr(code, "co_qualname", code.co_name).split(".<locals>")[0]
            inside = path.is_relative_to(PACKAGE) and name != "<module>"
            self._functions[code] = (str(path.relative_to(PACKAGE)), name) if inside else None
        return self._functions[code]

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        callee = self.function_of(frame.f_code) if event == "call" else None
        caller, back = None, frame.f_back
        while callee and not caller and back:
            caller, back = self.function_of(back.f_code), back.f_back
        if callee and caller and caller[0] != callee[0]:
            self.pairs[caller, callee] = None


def chains() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return short chains with noisy labels."""
    generator = np.random.default_rng(0)
    weights, X = generator.normal(size=(4, 8)), generator.normal(size=(EXAMPLES, 3, 8))
    y = (X @ weights.T + generator.normal(size=(EXAMPLES, 3, 4))).argmax(axis=2)
    return list(X), list(y)


def tagger(solver: Any = "auto") -> Any:
    """Return the estimator of all scenarios: a chain with default parameters except the solver."""
    return maxmargin.StructuralSVM(models.Chain(), solver=solver, random_state=0)


def chain(folder: str) -> Callable[[], Any]:
    """Fit a chain on arrays."""
    X, Y = chains()
    return lambda: tagger().fit(X, Y)


def streaming(folder: str) -> Callable[[], Any]:
    """Fit from shards on a disk, in two passes with a cache that holds a part of the examples."""
    data.write_shards(folder, *chains())
    shards = data.open_shards(folder)
    solver = solvers.Streaming(cache_bytes=BUDGET, passes=2)
    return lambda: tagger(solver).fit(shards.X, shards.Y)


def streamed_arrays(folder: str) -> Callable[[], Any]:
    """Fit from arrays with ``solver="streaming"``."""
    X, Y = chains()
    return lambda: tagger("streaming").fit(X, Y)


def partial_fit(folder: str) -> Callable[[], Any]:
    """Fit in two chunks by ``partial_fit``."""
    X, Y = chains()
    half = EXAMPLES // 2

    def run() -> None:
        svm = tagger("streaming").partial_fit(X[:half], Y[:half], classes=range(4))
        svm.partial_fit(X[half:], Y[half:])

    return run


SCENARIOS = {run.__name__: run for run in (chain, streaming, streamed_arrays, partial_fit)}


def count(scenario: Callable[[str], Callable[[], Any]]) -> list[tuple[Function, Function]]:
    """Return the crossings of one scenario, in the order of first calls."""
    crossings = Crossings()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning that one pass does not reach tol
        run = scenario(folder)
        run()  # imports on first use do not count
        sys.setprofile(crossings)
        try:
            run()
        finally:
            sys.setprofile(None)
    return list(crossings.pairs)


def main() -> None:
    """Print the count of each scenario and, if asked, the crossings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "scenarios", nargs="*", metavar="scenario", help=f"of {', '.join(SCENARIOS)}"
    )
    parser.add_argument("--list", action="store_true", help="print the pairs in the order met")
    arguments = parser.parse_args()
    for name in arguments.scenarios or SCENARIOS:
        if name not in SCENARIOS:
            parser.error(f"no scenario {name!r}; there are {', '.join(SCENARIOS)}")
        pairs = count(SCENARIOS[name])
        print(f"{name}: {len(pairs)}")
        for caller, callee in pairs if arguments.list else []:
            print(f"  {':'.join(caller)} -> {':'.join(callee)}")


if __name__ == "__main__":
    main()
