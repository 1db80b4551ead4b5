"""Real clusters for tests, and what two fits on them must share."""

from distributed import LocalCluster


def start_cluster(n_workers=2):
    """Workers, processes of their own, on loopback."""
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
