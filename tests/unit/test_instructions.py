"""Instruction counts of kernels, if valgrind is installed; parsing of profiles on every machine."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import count_instructions

PROFILE = """positions: line
events: Ir

ob=(1) /lib/libc.so
fn=(1) malloc
10 500

ob=(2) /site/_core_v3.so
fn=(2) visit
20 7
+3 100
cob=(1)
cfn=(1)
calls=4 0
* 9000
-1 20
7
fn=(3) score
30 3

ob=(1)
fn=(1)
11 600

ob=(2)
fn=(2)
* 1000
"""


def test_only_the_core_itself_counts() -> None:
    assert count_instructions.own_cost(PROFILE, "_core_v3.so") == 7 + 100 + 20 + 3 + 1000
    assert count_instructions.own_cost(PROFILE, "libc.so") == 500 + 600


def test_a_count_that_grew_is_named() -> None:
    lines = count_instructions.judged({"a": 1200, "b": 1050, "c": 9}, {"a": 1000, "b": 1000}, 0.1)
    assert [line.endswith("MORE") for line in lines] == [True, False, False]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_kernel_is_counted_and_judged(tmp_path: Path) -> None:
    stored = tmp_path / "instructions.json"
    assert count_instructions.main(["--write", "two classes"], stored) == 0
    assert count_instructions.main(["two classes"], stored) == 0  # the count is reproducible
    text = stored.read_text()
    count = max(map(int, filter(str.isdigit, text.replace(",", " ").replace(":", " ").split())))
    assert count > 10_000
    stored.write_text(text.replace(str(count), str(count // 2)))
    assert count_instructions.main(["two classes"], stored) == 1
