"""Fixtures of the contracts."""

import pytest


@pytest.fixture(scope="module")
def client():
    """A client of two workers, processes of their own, on loopback."""
    from distributed import Client

    from loopback import start_cluster

    with start_cluster() as made, Client(made) as client:
        yield client
