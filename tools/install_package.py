"""Install the package into this environment, compiled for this machine alone, and say how far it is.

A line for each file on a terminal (in place), some lines elsewhere; all that was printed if it fails.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator

COMMAND = [
    sys.executable, "-m", "pip", "install", "-v", "--no-deps", "--no-build-isolation",
    "--disable-pip-version-check", "--config-settings=cmake.define.MAXMARGIN_LEVELS=native", ".",
]  # fmt: skip
STEP = re.compile(
    r"\[(\d+)/(\d+)\] (?:Building CXX object \S*?/(units/\S+)\.o\b|(Linking|Generating).*)"
)
EVERY = 15.0  # seconds between two lines where nothing can be overwritten


def steps(lines: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    """What ninja says it has done: its number, of how many, and the file."""
    for line in lines:
        if found := STEP.search(line):
            number, all_of_them, file, other = found.groups()
            yield int(number), int(all_of_them), file or other.lower()


def main() -> int:
    """The exit status of pip."""
    in_place, began, said = sys.stdout.isatty(), time.monotonic(), -EVERY
    printed: list[str] = []
    print("maxmargin: compiling what changed of the core, for this machine alone", flush=True)
    with subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:

        def kept() -> Iterator[str]:
            for line in pip.stdout or ():
                printed.append(line)
                yield line

        for number, all_of_them, what in steps(kept()):
            seconds = time.monotonic() - began
            text = f"  {number} of {all_of_them} steps, {seconds:.0f} s: {what}"
            if in_place:
                print(f"\r{text:<100.100}", end="", flush=True)
            elif seconds - said >= EVERY:
                said = seconds
                print(text, flush=True)
    if in_place:
        print()
    if pip.returncode:
        print("".join(printed), file=sys.stderr)
    else:
        print(f"maxmargin: installed in {time.monotonic() - began:.0f} s", flush=True)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main())
