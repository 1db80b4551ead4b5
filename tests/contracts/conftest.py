"""Fixtures of the contracts."""

import pytest


@pytest.fixture(scope="session")
def workers():
    """Workers on loopback for all tests: some kill one of them, which is replaced."""
    from loopback import start_cluster

    with start_cluster() as made:
        yield made


@pytest.fixture
def client(workers):
    """A client of them, once all are there."""
    from distributed import Client

    from loopback import N_WORKERS

    with Client(workers) as client:
        client.wait_for_workers(N_WORKERS)
        yield client
