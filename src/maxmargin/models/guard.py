"""w as the methods of a user's model may see it: to read, not to write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from maxmargin.models.base import OracleError


def read_only(w: np.ndarray) -> np.ndarray:
    """A view of w; writing into it is NumPy's error."""
    view = np.asarray(w).view()
    view.flags.writeable = False
    return view


@contextmanager
def lent(w: np.ndarray, method: str) -> Iterator[np.ndarray]:
    """w for one method of a user's model; an attempt to change it is told with the method's name."""
    try:
        yield read_only(w)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise OracleError(
            f"{method} of the model writes into an array that is read-only; if that is w: the solver goes on "
            "with it, so work on a copy, w.copy()"
        ) from error
