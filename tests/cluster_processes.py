"""Start a scheduler and workers as separate processes, with the commands that a user types."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import Client

CONNECT = 30  # seconds; the timeout also applies to a client that has lost its scheduler
OPTIONS = ["--host", "127.0.0.1", "--no-dashboard"]


def start(folder: Path, *words: str) -> subprocess.Popen:
    """Start one `dask` command."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    log = (folder / "log").open("a")
    command = [sys.executable, "-m", "dask", *words]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)


def start_scheduler(folder: Path) -> tuple[subprocess.Popen, str]:
    """Start a scheduler on a free port of loopback; return it and its file for clients and workers."""
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    words = ["--port", "0", "--scheduler-file", str(file)]
    return start(folder, "scheduler", *OPTIONS, *words), str(file)


def start_worker(folder: Path, file: str, *more: str) -> subprocess.Popen:
    """Start a worker without a nanny, so that nothing restarts it."""
    words = ["--scheduler-file", file, "--nthreads", "1", "--no-nanny", *more]
    return start(folder, "worker", *OPTIONS, *words)


@contextmanager
def processes(folder: Path, n_workers: int = 2) -> Iterator[tuple[Client, list[subprocess.Popen]]]:
    """Yield a client, and the scheduler with its workers; end all processes afterwards."""
    folder.mkdir(exist_ok=True)
    scheduler, file = start_scheduler(folder)
    started = [scheduler]
    try:
        started += [start_worker(folder, file) for _ in range(n_workers)]
        while not Path(file).is_file():  # the file appears when the scheduler listens
            assert scheduler.poll() is None, (folder / "log").read_text()
            time.sleep(0.05)
        with Client(scheduler_file=file, timeout=CONNECT, set_as_default=False) as client:
            client.wait_for_workers(n_workers)
            yield client, started
    finally:
        for process in started:
            process.kill()
            process.wait()
