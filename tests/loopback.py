"""Real clusters for tests, and what two fits on them must share."""

import dask
from distributed import LocalCluster
from distributed.utils import get_mp_context

N_WORKERS = 3
# A worker's process is a copy of one that has imported all it needs: importing takes seconds for each. Those
# that the commands of a user start (cluster_processes.py) begin from nothing.
dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
get_mp_context().set_forkserver_preload(["distributed", "maxmargin.cluster"])


def start_cluster(n_workers=N_WORKERS):
    """Workers, processes of their own, on loopback; one that dies is replaced."""
    return LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        silence_logs=50,
    )


def agree(found, alone):
    """Two solutions agree as far as their certificates say."""
    assert found.converged and alone.converged
    assert found.dual <= alone.primal and alone.dual <= found.primal
