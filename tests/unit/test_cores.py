"""The number of cores that a process may use: affinity, cgroups, MAXMARGIN_CORES and n_jobs=-1."""

import math
import os
import subprocess
import sys

import pytest

from maxmargin._core import core
from maxmargin.runtime.executor import count_jobs


def said(code, **environment):
    """Run code in a new process and return the words that it prints."""
    known = {name: value for name, value in os.environ.items() if name != "MAXMARGIN_CORES"}
    code = f"import os\nfrom maxmargin.runtime.executor import count_jobs\n{code}"
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**known, **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


def write(root, files):
    """Write the files of a system with cgroups below a folder."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs the affinity of Linux")
def test_n_jobs_counts_the_cores_of_the_affinity():
    one = min(os.sched_getaffinity(0))
    code = f"os.sched_setaffinity(0, [{one}])\nprint(count_jobs(-1), count_jobs(-2), count_jobs(3))"
    assert said(code) == ["1", "1", "3"]
    code = f"print(count_jobs(-1))\nos.sched_setaffinity(0, [{one}])\nprint(count_jobs(-1))"
    assert said(code)[-1] == "1"  # a change of the affinity takes effect at once


def test_the_environment_sets_the_number_of_cores():
    assert said("print(count_jobs(-1), count_jobs(-2))", MAXMARGIN_CORES="7") == ["7", "6"]


@pytest.mark.parametrize("given", ["", "0", "-1", "2.5", "two", "99999999999"])
def test_a_wrong_number_of_cores_in_the_environment_is_refused(given):
    code = "try: count_jobs(-1)\nexcept ValueError as error: print(error)"
    told = " ".join(said(code, MAXMARGIN_CORES=given))
    assert "MAXMARGIN_CORES must be a whole number" in told and f'got "{given}"' in told


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_reads_the_number_of_cores_again():
    code = """
print(count_jobs(-1), flush=True)
os.environ["MAXMARGIN_CORES"] = "5"
if child := os.fork():
    os.waitpid(child, 0)
print(count_jobs(-1), flush=True)
"""
    assert said(code, MAXMARGIN_CORES="3") == ["3", "5", "3"]


GROUPS = {
    "version 2": (
        {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "250000 100000\n"},
        2.5,
    ),
    "a cgroup above": (
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            "sys/fs/cgroup/a/cpu.max": "150000 50000\n",
        },
        3.0,
    ),
    "in a container": (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"},
        0.5,
    ),
    "no quota": (
        {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n"},
        math.inf,
    ),
    "version 1": (
        {
            "proc/self/cgroup": "5:cpuacct,cpu:/a\n2:memory:/m\n",
            "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "400000\n",
            "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
        },
        4.0,
    ),
    "version 1, the path of the host": (
        {
            "proc/self/cgroup": "5:cpu,cpuacct:/docker/0123\n0::/x\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        1.0,
    ),
    "version 1, no quota": (
        {
            "proc/self/cgroup": "1:cpu:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        math.inf,
    ),
    "another controller": (
        {
            "proc/self/cgroup": "1:cpuset:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        math.inf,
    ),
    "no cgroups": ({}, math.inf),
    "not a cgroup file": ({"proc/self/cgroup": "\nnothing\n:\n0::a/b\n"}, math.inf),
}


@pytest.mark.parametrize("kind", GROUPS)
def test_the_quota_of_cgroups(kind, tmp_path):
    files, cores = GROUPS[kind]
    assert core.cgroup_cores(write(tmp_path, files)) == cores


def test_cores_are_at_least_one_and_no_more_than_the_quota():
    assert 1 <= core.usable_cores() == count_jobs(-1)
    if "MAXMARGIN_CORES" not in os.environ:
        assert core.usable_cores() <= min(os.cpu_count(), max(1, core.cgroup_cores() + 1))
