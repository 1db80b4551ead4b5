"""Build the core with a sanitizer of the compiler, in a folder of its own, and run the suites that reach it.

    python tools/sanitized.py address     memory errors, undefined behaviour: contracts, laws, fuzzers
    python tools/sanitized.py thread      data races: what runs with several threads

The first report ends the run, and none is suppressed: no pass has a race by design. Linux with GCC: the
sanitizer must be loaded before Python itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SANITIZERS = {"address": "address,undefined", "thread": "thread"}
# One process, whose output is not caught: a report ends it. It reserves more memory than a test may allow.
PYTEST = ["-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider"]
SUITES = {
    "address": [
        [*PYTEST, "tests/unit/test_core.py", "tests/unit/test_interrupt.py"],
        [*PYTEST, "tests/contracts", "tests/laws", "-k", "not in_two_gigabytes"],
        ["-m", "fuzz.problems", "--seconds", "60"],
        ["-m", "fuzz.extremes", "--seconds", "60"],
        ["-m", "fuzz.interrupts", "--seconds", "60"],
    ],
    "thread": [["tools/threaded_passes.py"]],
}


def build(kind: str, **defines: str) -> Path:
    """Install the package in a folder of its own, its core with these settings of CMake; returns where."""
    site = ROOT / "build" / kind / "site"
    options = {
        "build-dir": str(ROOT / "build" / kind / "tree"),
        "install.strip": "false",
        **{f"cmake.define.{name}": value for name, value in defines.items()},
    }
    settings = [f"--config-settings={name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    command += ["--no-build-isolation", f"--target={site}", *settings, str(ROOT)]
    subprocess.run(command, check=True)
    return site


def environment(kind: str, site: Path) -> dict[str, str]:
    """What makes Python run with the sanitizer."""
    compiler, own = os.environ.get("CXX", "c++"), {"address": "libasan.so", "thread": "libtsan.so"}
    # The library of C++ as well: the sanitizer must find what throws exceptions when it starts.
    paths = [
        subprocess.check_output([compiler, f"-print-file-name={name}"], text=True).strip()
        for name in (own[kind], "libstdc++.so.6")
    ]
    return {
        **os.environ,
        "LD_PRELOAD": os.pathsep.join(paths),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python itself leaves memory behind at its end
        "TSAN_OPTIONS": "halt_on_error=1",
        "PYTHONMALLOC": "malloc",  # so that objects of Python are guarded as well
        "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)]),
        "MAXMARGIN_SIMD": "baseline",
        "MAXMARGIN_CORES": "16",  # threads start even if there are fewer cores
    }


def run(kind: str) -> int:
    """Build, then run every suite; the number of those that failed."""
    defines = {"MAXMARGIN_LEVELS": "baseline", "MAXMARGIN_SANITIZE": SANITIZERS[kind]}
    settings = environment(kind, build(kind, **defines))
    failed = 0
    for suite in SUITES[kind]:
        print("+ python", *suite, flush=True)
        failed += subprocess.run([sys.executable, *suite], cwd=ROOT, env=settings).returncode != 0
    return failed


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in SANITIZERS:
        sys.exit(__doc__)
    sys.exit(run(sys.argv[1]))
