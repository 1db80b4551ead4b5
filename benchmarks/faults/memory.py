"""python -m benchmarks.faults.memory [--part-mb 448] [--limit-mb 384] [--small]

Train on shards that are larger than the memory of the workers. Two workers on this machine each
have a part of the shards in memory-mapped files. A limit of the system (RLIMIT_DATA) bounds their
private memory. Pages of files do not count: the system takes them back when it needs memory. The
memory monitor of `distributed` does count them, so it must be off (``memory_limit=None``, or
``dask worker --memory-limit 0``).

The table shows peaks over all rounds, in MB. `own` is private memory of the worker (RssAnon),
`data`
is the memory that the limit counts (VmData, about 250 MB before any data are read), and `mapped` is
pages of files. Needs Linux.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

import maxmargin as mm
from benchmarks.timing import write_csv
from maxmargin import cluster, models
from maxmargin.callbacks import Callback

MEASURED = {"own": "RssAnon", "data": "VmData", "mapped": "RssFile"}
MB = 2**20


def limit(size: int) -> None:
    """Limit the memory of this worker."""
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def usage() -> dict[str, float]:
    """Return the memory that this worker uses now, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {line.split(":")[0]: line.split()[1] for line in lines if line.endswith("kB")}
    return {name: int(found[key]) / 1024 for name, key in MEASURED.items()}


class Watch(Callback):
    """Record the peak memory of the workers after every round."""

    def __init__(self, client: Client):
        self.client = client
        self.peaks = dict.fromkeys(MEASURED, 0.0)

    def on_step(self, info: Any) -> None:
        for found in self.client.run(usage).values():
            self.peaks = {name: max(self.peaks[name], found[name]) for name in MEASURED}


def write(folder: Path, megabytes: float, width: int, seed: int = 0) -> int:
    """Write single-precision shards for two parts of this many megabytes; return the number of rows."""
    rng, n = np.random.default_rng(seed), int(2 * megabytes * MB / (4 * width))
    centres = 2 * rng.normal(size=(4, width)).astype(np.float32) / np.sqrt(width)
    y = rng.integers(0, 4, n)
    X = rng.standard_normal((n, width), np.float32)
    X += centres[y]
    mm.data.write_shards(folder, X, y, shard_bytes=int(megabytes * MB / 4))
    return n


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Write, train under a limit, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part-mb", type=float, default=448.0)
    parser.add_argument("--limit-mb", type=float, default=384.0, help="of memory of a worker's own")
    parser.add_argument("--width", type=int, default=500)
    parser.add_argument("--tol", type=float, default=0.02)
    parser.add_argument("--small", action="store_true", help="little data, a limit that is none")
    parser.add_argument("--out", type=Path, default=Path("memory.csv"))
    given = parser.parse_args(argv)
    if given.small:
        given.part_mb, given.limit_mb = 1.0, 8000.0
    with tempfile.TemporaryDirectory() as folder:
        n = write(Path(folder) / "rows", given.part_mb, given.width)
        options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(memory_limit=None, **options) as made, Client(made) as client:
            before = max(found["data"] for found in client.run(usage).values())
            client.run(limit, int(given.limit_mb * MB))
            watch, svm = (
                Watch(client),
                mm.StructuralSVM(models.Multiclass(), C=10 / n, tol=given.tol),
            )
            cluster.fit(svm, Path(folder) / "rows", client, older=4, callbacks=[watch])
    row = {"rows": n, "part_mb": given.part_mb, "limit_mb": given.limit_mb, "data_before": before}
    row |= {f"peak_{name}": peak for name, peak in watch.peaks.items()}
    row |= {"rounds": len(svm.history_["gap"]), "gap": svm.certificate_.gap}
    row |= {"converged": svm.certificate_.converged, "seconds": svm.certificate_.seconds}
    print({name: round(v, 4) if isinstance(v, float) else v for name, v in row.items()})
    write_csv(given.out, [row])
    return [row]


if __name__ == "__main__":
    main()
