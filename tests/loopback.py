"""Real clusters for tests, and the agreement required of two fits."""

import dask
from distributed import LocalCluster
from distributed.utils import get_mp_context

N_WORKERS = 3
# Fork each worker from a process that has imported all it needs, since the imports take seconds.
# Workers started by the user's commands (cluster_processes.py) import everything themselves.
dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
get_mp_context().set_forkserver_preload(["distributed", "maxmargin.cluster"])


def start_cluster(n_workers=N_WORKERS):
    """Start worker processes on loopback; a worker that dies is replaced."""
    return LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        silence_logs=50,
    )


def agree(found, alone):
    """Assert that two solutions converged and that their certificates are consistent."""
    assert found.converged and alone.converged
    assert found.dual <= alone.primal and alone.dual <= found.primal
