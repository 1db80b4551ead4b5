"""Print results as lines or as JSON."""

from __future__ import annotations

import json
from typing import Any


def show(values: dict[str, Any], as_json: bool) -> None:
    """Print a result as lines or as JSON."""
    if as_json:
        print(json.dumps(values, default=str))
        return
    width = max(map(len, values))
    for name, value in values.items():
        text = f"{value:.6g}" if isinstance(value, float) else one_line(value)
        print(f"{name:{width}}  {text}")


def one_line(output: Any) -> str:
    """Format an output on one line."""
    return " ".join(str(output).split())
