"""The settings of one race: a JSON file of `configs/`, with changes from the command line."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "configs"


@dataclass(frozen=True)
class Config:
    """The fields of a config file; `options` go to the loader of the data set."""

    data: str
    lambdas: tuple[float, ...]
    tols: tuple[float, ...]
    solvers: tuple[str, ...]
    peers: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    repeats: int = 3
    max_passes: int = 300
    max_seconds: float | None = 60.0
    c2: float = 1.0  # CRFsuite's own default
    peer_iterations: int | None = None

    @classmethod
    def read(cls, name: str) -> Config:
        """Read the config called `name` in the folder of configs, or the file with that path."""
        path = FOLDER / f"{name}.json"
        if not path.is_file():
            path = Path(name)
        if not path.is_file():
            known = ", ".join(sorted(file.stem for file in FOLDER.glob("*.json")))
            raise FileNotFoundError(f"config {name!r} is neither a file nor one of: {known}")
        values = json.loads(path.read_text(encoding="utf-8"))
        allowed = {entry.name for entry in fields(cls)}
        unknown = sorted(set(values) - allowed)
        if unknown:
            raise ValueError(f"{path.name}: unknown keys {unknown}; allowed: {sorted(allowed)}")
        tuples = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
        return cls(**(values | tuples))

    def changed(self, **values: Any) -> Config:
        """Return the config with the given values that are not None."""
        return replace(self, **{key: value for key, value in values.items() if value is not None})

    def shrunk(self) -> Config:
        """Return the same race on the synthetic stand-in, which takes seconds instead of minutes."""
        return replace(
            self,
            options=self.options | {"small": True},
            lambdas=(self.lambdas[0], self.lambdas[-1]),
            tols=self.tols[:1],
            repeats=1,
            max_seconds=0.3,
            peer_iterations=5,
        )
