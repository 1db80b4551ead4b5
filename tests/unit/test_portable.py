"""The compiler's vectors and plain arrays, which MSVC uses, give the same numbers."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which(os.environ.get("CXX", "")) or shutil.which("c++") or shutil.which("g++")


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
@pytest.mark.parametrize("flags", [[], ["-mavx2", "-mfma"]], ids=["baseline", "v3"])
def test_arrays_give_what_vectors_give(tmp_path, flags):
    printed = []
    for plain in ([], ["-DMAXMARGIN_PLAIN_LANES"]):
        program = tmp_path / f"lanes{len(plain)}"
        source = ROOT / "tests/reference/lanes.cpp"
        command = [COMPILER, "-std=c++20", "-O2", "-ffp-contract=off", *flags, *plain]
        made = subprocess.run([*command, f"-I{ROOT / 'cpp'}", str(source), "-o", str(program)],
                              capture_output=True, text=True)  # fmt: skip
        if made.returncode and flags:
            pytest.skip("the compiler does not know these instructions")
        assert made.returncode == 0, made.stderr
        run = subprocess.run([str(program)], capture_output=True, text=True)
        if run.returncode < 0 and flags:
            pytest.skip("this machine does not run these instructions")
        printed.append(run.stdout)
    assert printed[0] == printed[1]
    assert len(printed[0].split()) > 50
