"""Install the package into this environment, compiled for this machine alone, and show the
progress.

On a terminal, one line shows the current file. Elsewhere a line is printed every few seconds. If
pip fails,
its whole output is printed.
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
EVERY = 15.0  # seconds between two lines if the output is not a terminal


def steps(lines: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the progress that ninja prints: step number, number of steps, and file."""
    for line in lines:
        if found := STEP.search(line):
            number, all_of_them, file, other = found.groups()
            yield int(number), int(all_of_them), file or other.lower()


def main() -> int:
    """Run pip and return its exit status."""
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
