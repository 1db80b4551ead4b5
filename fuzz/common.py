"""Code that all fuzzers share: numbered cases from a seed, a budget, counts, and a report of the
finds.

A fuzzer is a function ``attempt(rng)``. It makes one case from the generator and tries it. It
returns a name
for the kind of case, which is counted, and raises an exception if the library broke a promise. Case
k of seed
s is the same on every machine: ``--seed s --only k`` repeats it.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

Attempt = Callable[[np.random.Generator], str]


class Find(AssertionError):
    """A promise that the library broke."""


@dataclass
class Tally:
    """The number of cases of each kind, and the cases in which a run found something."""

    tried: Counter[str] = field(default_factory=Counter)
    finds: list[tuple[int, str]] = field(default_factory=list)

    @property
    def cases(self) -> int:
        """The number of cases that ran."""
        return self.tried.total() + len(self.finds)


def options(name: str, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the arguments of a fuzzer."""
    parser = argparse.ArgumentParser(prog=f"python -m fuzz.{name}")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to run (10)")
    parser.add_argument("--cases", type=int, help="how many cases to run, instead of --seconds")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other cases (0)")
    parser.add_argument("--only", type=int, help="repeat this one case")
    parser.add_argument("--hang", type=float, default=120.0, help="seconds that no case may take")
    return parser.parse_args(argv)


def numbers(arguments: argparse.Namespace) -> Sequence[int]:
    """The numbers of the cases, unless the time limit ends the run before."""
    if arguments.only is not None:
        return range(arguments.only, arguments.only + 1)
    return range(sys.maxsize if arguments.cases is None else arguments.cases)


def run(name: str, attempt: Attempt, argv: Sequence[str] | None = None) -> Tally:
    """Try case after case.

    Ctrl-C ends the run with its report; a case that hangs ends it with a trace of where it hangs.
    """
    arguments = options(name, argv)
    tally, started = Tally(), time.monotonic()
    timed = arguments.cases is None and arguments.only is None
    for k in numbers(arguments):
        if timed and time.monotonic() - started >= arguments.seconds:
            break
        faulthandler.dump_traceback_later(arguments.hang, exit=True)
        try:
            tally.tried[attempt(np.random.default_rng([arguments.seed, k]))] += 1
        except KeyboardInterrupt:
            break
        except Exception:
            tally.finds.append((k, traceback.format_exc()))
            print(f"case {k}:\n{tally.finds[-1][1]}", flush=True)
        finally:
            faulthandler.cancel_dump_traceback_later()
    report(name, tally, arguments.seed, time.monotonic() - started)
    return tally


def report(name: str, tally: Tally, seed: int, seconds: float) -> None:
    """Print one line for each kind of case, one for each find, and a closing line."""
    for kind, count in sorted(tally.tried.items()):
        print(f"  {count:9d}  {kind}")
    for k, trace in tally.finds:
        print(f"  find in case {k} (--seed {seed} --only {k}): {trace.strip().splitlines()[-1]}")
    print(f"{name}: {tally.cases} cases in {seconds:.0f} s, {len(tally.finds)} finds", flush=True)


def main(name: str, attempt: Attempt) -> None:
    """Run as a program, with exit code 1 if something was found."""
    sys.exit(1 if run(name, attempt).finds else 0)
