"""Build the core with a sanitizer of the compiler, in a separate folder, and run the test suites that use it.

    python tools/sanitized.py address     memory errors, undefined behaviour: contracts, laws, fuzzers
    python tools/sanitized.py thread      data races: passes with several threads

The first report of the sanitizer ends the run. No report is suppressed, because no pass may have a race. The
tool needs Linux with GCC, and loads the sanitizer before Python itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SANITIZERS = {"address": "address,undefined", "thread": "thread"}
# The tests run in one process without captured output, since a report ends the process. The sanitizer needs
# so much memory that tests with a memory limit are left out.
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
    """Install the package in a separate folder, with these CMake settings for the core; return the folder."""
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
    """Return the environment in which Python runs with the sanitizer."""
    compiler, own = os.environ.get("CXX", "c++"), {"address": "libasan.so", "thread": "libtsan.so"}
    # Also preload the C++ library: the sanitizer must find its function that throws exceptions at start.
    paths = [
        subprocess.check_output([compiler, f"-print-file-name={name}"], text=True).strip()
        for name in (own[kind], "libstdc++.so.6")
    ]
    return {
        **os.environ,
        "LD_PRELOAD": os.pathsep.join(paths),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python itself does not free all memory at exit
        "TSAN_OPTIONS": "halt_on_error=1",
        "PYTHONMALLOC": "malloc",  # so that Python's objects are checked as well
        "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)]),
        "MAXMARGIN_SIMD": "baseline",
        "MAXMARGIN_CORES": "16",  # threads start even if there are fewer cores
    }


def run(kind: str) -> int:
    """Build, then run every suite; return the number of failed suites."""
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
