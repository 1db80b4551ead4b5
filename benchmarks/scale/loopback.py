"""Rounds on a real cluster: a scheduler and workers as separate processes, on loopback.

Each process counts the bytes that it writes to its connections (``distributed.comm.tcp``), its peak memory
and its CPU seconds. Bytes and CPU seconds up to the end of the first round are subtracted; most of these
bytes are the examples. Needs Linux.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distributed import Client

from benchmarks.scale.simulate import GAPS, Task, Timing, named, parts_of
from maxmargin import cluster
from maxmargin.callbacks import Callback

OPTIONS = ["--host", "127.0.0.1", "--no-dashboard"]


@contextmanager
def processes(n_workers: int) -> Iterator[Client]:
    """Start a scheduler and workers; yield their client."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "scheduler.json")
        dask = [sys.executable, "-m", "dask"]
        words = ["--port", "0", "--scheduler-file", file]
        commands = [[*dask, "scheduler", *OPTIONS, *words]]
        words = ["--scheduler-file", file, "--nthreads", "1", "--no-nanny", *OPTIONS]
        commands += [[*dask, "worker", *words]] * n_workers
        found = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        quiet |= {"cwd": folder, "env": found}
        started = [subprocess.Popen(command, **quiet) for command in commands]
        try:
            while not Path(file).is_file():
                time.sleep(0.05)
            with Client(scheduler_file=file, set_as_default=False) as client:
                client.wait_for_workers(n_workers)
                yield client
        finally:
            for process in started:
                process.kill()
                process.wait()


def count() -> None:
    """Count the bytes that this process writes from now on."""
    from distributed.comm.tcp import TCP

    if hasattr(TCP, "counted"):
        return
    TCP.counted = 0
    write = TCP.write

    async def counting(self: Any, *args: Any, **named: Any) -> int:
        size = await write(self, *args, **named)
        TCP.counted += size
        return size

    TCP.write = counting


def usage() -> dict[str, float]:
    """Return bytes written, peak memory in bytes, and CPU seconds of this process."""
    from distributed.comm.tcp import TCP

    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return {
        "bytes": getattr(TCP, "counted", 0),
        "peak": 1024 * peak,
        "cpu": time.process_time(),
    }


class Meter(Callback):
    """Usage of the driver, the scheduler and the workers, counted from the end of the first round."""

    def __init__(self, client: Client):
        self.client = client
        self.first: dict[str, dict[str, float]] = {}

    def now(self) -> dict[str, dict[str, float]]:
        """Return the current usage. Workers are summed up, except that their peak is the largest peak."""
        found = list(self.client.run(usage).values())
        workers = {name: sum(own[name] for own in found) for name in found[0]}
        workers["peak"] = max(own["peak"] for own in found)
        scheduler = self.client.run_on_scheduler(usage)
        return {"driver": usage(), "scheduler": scheduler, "workers": workers}

    def on_step(self, info: Any) -> None:
        if info.step == 1:
            self.first, self.began = self.now(), time.perf_counter()
        self.rounds = info.step


def measure(
    task: Task, n_workers: int, most: int = 100, small: bool = False, gaps: Any = GAPS
) -> dict[str, Any]:
    """Measure rounds, bytes and CPU seconds per round, and memory, on a real cluster."""
    model, X, Y = task.examples(small)
    with processes(n_workers) as client:
        count()
        client.run(count)
        client.run_on_scheduler(count)
        before = client.run(usage)
        meter, watch = Meter(client), Timing(most, gaps)
        svm = task.svm(model, len(Y), min(gaps) / 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            parts = parts_of(X, Y, n_workers)
            cluster.fit(svm, parts, client, callbacks=[meter, watch])
        after, seconds = meter.now(), time.perf_counter() - meter.began
    n = meter.rounds - 1
    row = {"task": task.name, "lambda": task.strength, "parts": n_workers, **named(watch)}
    row |= {"weights": svm.coef_.size, "examples": len(Y), "rounds": meter.rounds}
    for who, own in after.items():
        row[f"{who}_bytes"] = (own["bytes"] - meter.first[who]["bytes"]) / n
        row[f"{who}_cpu"] = (own["cpu"] - meter.first[who]["cpu"]) / n
        row[f"{who}_peak"] = own["peak"]
    row["worker_before"] = max(own["peak"] for own in before.values())
    return row | {"seconds": seconds / n}
