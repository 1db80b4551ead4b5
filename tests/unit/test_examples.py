"""Every example runs in a small version, in its own folder, and prints output."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path):
    run = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(example), "--small"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.strip()


def test_there_are_examples():
    assert "demo_letters" in {path.stem for path in EXAMPLES}


def test_demo_draws_two_pictures(tmp_path):
    demo = next(path for path in EXAMPLES if path.stem == "demo_letters")
    command = [sys.executable, str(demo), "--small", "--output", str(tmp_path / "pictures")]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    for name in ("words.png", "convergence.png"):
        assert (tmp_path / "pictures" / name).stat().st_size > 10_000
    assert "gap" in run.stderr, "progress goes to standard error"
    assert "letters right" in run.stdout
