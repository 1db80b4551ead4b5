"""A cache for slow references: many tests ask for the optimum of the same problem."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import wraps
from hashlib import sha256
from typing import Any


def remembered(function: Callable) -> Callable:
    """Decorate a pure function: it runs once per process for equal arguments, and returns copies."""
    answers: dict[bytes, bytes] = {}

    @wraps(function)
    def answer(*arguments: Any, **options: Any) -> Any:
        key = sha256(pickle.dumps((arguments, options))).digest()
        if key not in answers:
            answers[key] = pickle.dumps(function(*arguments, **options))
        return pickle.loads(answers[key])

    return answer
