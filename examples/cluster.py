"""Train on a cluster of two workers, one of which dies on the way.

    python examples/cluster.py [--small]

The data are words of letters in two shards. The example starts a scheduler and two workers on this
machine. On a real cluster you start them with `dask scheduler` and `dask worker`, and the client
gets the address of the scheduler. Needs `pip install 'maxmargin[cluster]'`.
"""

import argparse
import os
import signal
import tempfile
from pathlib import Path

from distributed import Client, LocalCluster

import maxmargin as mm
from maxmargin import models
from maxmargin.callbacks import Callback
from maxmargin.data.synthetic import words_of_letters


class LoseAWorker(Callback):
    """Kill a worker in the middle of training, which then goes on."""

    def __init__(self, client: Client):
        self.client = client

    def on_step(self, info) -> None:
        print(
            f"round {info.step:3d}  primal {info.primal:9.4f}  dual {info.dual:9.4f}  gap {info.gap:.4f}"
        )
        if info.step == 5:
            address, process = sorted(self.client.run(os.getpid).items())[0]
            print(f"          the worker at {address} is killed")
            os.kill(process, signal.SIGKILL)


def main() -> None:
    """Write shards, train on them, compare with one process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="few words, for a quick run")
    n = 60 if parser.parse_args().small else 500
    X, Y = words_of_letters(n, random_state=0)
    settings = {"C": 1.0 / n, "tol": 0.02, "random_state": 0}
    with tempfile.TemporaryDirectory() as folder:
        shards = Path(folder) / "words"
        mm.data.write_shards(shards, X, Y, shard_bytes=sum(x.nbytes for x in X) // 4)
        options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
        with LocalCluster(silence_logs=50, **options) as workers, Client(workers) as client:
            svm = mm.StructuralSVM(models.Chain(bias=1.0), **settings)
            mm.cluster.fit(svm, shards, client, callbacks=[LoseAWorker(client)])
    print("cluster:    ", svm.certificate_)
    alone = mm.StructuralSVM(models.Chain(bias=1.0), **settings).fit(X, Y)
    print("one process:", alone.certificate_)


if __name__ == "__main__":  # workers are new processes that import this file
    main()
