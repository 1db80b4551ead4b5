"""Fixtures of the contracts."""

import pytest


@pytest.fixture(scope="session")
def workers():
    """Workers on loopback, shared by all tests; some tests kill a worker, which is then replaced."""
    from loopback import start_cluster

    with start_cluster() as made:
        yield made


@pytest.fixture
def client(workers):
    """A client of the workers, once all of them have connected."""
    from distributed import Client

    from loopback import N_WORKERS

    with Client(workers) as client:
        client.wait_for_workers(N_WORKERS)
        yield client
