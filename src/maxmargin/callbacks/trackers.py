"""Experiment trackers: record training in MLflow and TensorBoard.

Each step records ``primal``, ``dual``, ``gap``, ``estimate`` (if they are known), ``passes``,
``oracle_calls``, ``planes`` and ``seconds``. A fit records its parameters at the start and its certificate at
the end. A fit that trains in several rounds has one run, and its step numbers continue from round to round.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from maxmargin.callbacks.protocol import Callback, Progress, optional

TRACKED = ("primal", "dual", "gap", "estimate", "passes", "oracle_calls", "planes", "seconds")
LONGEST = 500  # characters recorded of a parameter; trackers limit the length of a value


@dataclass(eq=False)
class Tracker(Callback):
    """Base class of the trackers: decides when to write. ``_begin`` and ``_finish`` open and close a run."""

    interval: float = field(default=0.0, kw_only=True)
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True)

    def __post_init__(self) -> None:
        if not 0 <= self.interval < math.inf:
            raise ValueError(
                f"{type(self).__name__}: interval: expected seconds, from 0, got {self.interval!r}"
            )
        self._in_fit = False

    def on_fit_start(self, estimator: Any) -> None:
        self._open()
        self._in_fit = True
        self._parameters(parameter_texts(estimator))

    def on_start(self, info: Progress) -> None:
        if not self._in_fit:  # ``train`` was called directly, without an estimator
            self._open()

    def on_step(self, info: Progress) -> None:
        self._step += 1
        if self.clock() >= self._due:
            self._write(info)

    def on_end(self, info: Progress) -> None:
        self._write(info)
        self._words({"solver": info.solver, "status": info.status})
        if not self._in_fit:
            self._finish(failed=False)

    def on_fit_end(self, estimator: Any) -> None:
        if not self._in_fit:  # the fit failed before the run was opened
            return
        self._in_fit = False
        try:
            if estimator is not None:
                self._certificate(estimator)
                self._fitted(estimator)
        finally:
            self._finish(failed=estimator is None)

    def _open(self) -> None:
        self._step, self._due = 0, -math.inf
        self._begin()

    def _write(self, info: Progress) -> None:
        self._due = self.clock() + self.interval
        self._scalars({name: getattr(info, name) for name in TRACKED}, self._step)

    def _certificate(self, estimator: Any) -> None:
        """Write the numbers of the certificate as scalars and the certificate as text."""
        proven = asdict(estimator.certificate_)
        numbers = {k: v for k, v in proven.items() if isinstance(v, int | float)}
        self._scalars({f"certificate/{k}": float(v) for k, v in numbers.items()}, self._step)
        self._words({"certificate": str(estimator.certificate_)})

    # For subclasses to implement

    def _begin(self) -> None:
        raise NotImplementedError

    def _scalars(self, values: dict[str, float], step: int) -> None:
        raise NotImplementedError

    def _parameters(self, values: dict[str, str]) -> None:
        raise NotImplementedError

    def _words(self, values: dict[str, str]) -> None:
        raise NotImplementedError

    def _fitted(self, estimator: Any) -> None:
        """Record more facts about a fitted estimator. The default records nothing."""

    def _finish(self, failed: bool) -> None:
        raise NotImplementedError


@dataclass(eq=False)
class MLflow(Tracker):
    """Writes training to MLflow: parameters, metrics of the steps, the certificate, the model.

    Within ``with mlflow.start_run():`` it writes to that run. Otherwise it starts a run, which ends with the
    fit.

    Parameters
    ----------
    run_name : name of a run that is started here
    nested : bool
        Start a run below the active one for each fit. Use it for searches, whose fits differ in parameters.
    model_file : name of an artifact, such as "model.safetensors", or None
        The model as ``save`` writes it. ``maxmargin.load`` reads it.
    interval : least seconds between two records of steps; each record is a request to the server
    clock : function that returns seconds from any origin. Tests replace it.
    """

    run_name: str | None = None
    nested: bool = False
    model_file: str | None = None
    interval: float = field(default=1.0, kw_only=True)

    def _begin(self) -> None:
        self._mlflow: Any = optional("mlflow", "callbacks.MLflow", "mlflow")
        active = self._mlflow.active_run()
        self._own = active is None or self.nested
        if self._own:
            self._mlflow.start_run(run_name=self.run_name, nested=active is not None)

    def _scalars(self, values: dict[str, float], step: int) -> None:
        self._mlflow.log_metrics({k: v for k, v in values.items() if math.isfinite(v)}, step=step)

    def _parameters(self, values: dict[str, str]) -> None:
        self._mlflow.log_params(values)

    def _words(self, values: dict[str, str]) -> None:
        self._mlflow.set_tags({f"maxmargin.{name}": text for name, text in values.items()})

    def _fitted(self, estimator: Any) -> None:
        if self.model_file is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / self.model_file
            estimator.save(path)
            self._mlflow.log_artifact(str(path))

    def _finish(self, failed: bool) -> None:
        if self._own:
            self._mlflow.end_run("FAILED" if failed else "FINISHED")


@dataclass(eq=False)
class TensorBoard(Tracker):
    """Writes training to TensorBoard event files: steps as scalars, parameters and certificate as text.

    Parameters
    ----------
    log_dir : folder of the run. None takes ``runs/`` and the time.
    writer : a ``SummaryWriter`` of tensorboardX or torch, used in place of a new one.
        A given writer is flushed at the end, and stays open.
    prefix : text before the names of scalars, such as "fold1/"
    interval : least seconds between two records of steps
    clock : function that returns seconds from any origin. Tests replace it.
    """

    log_dir: Any = None
    writer: Any = None
    prefix: str = ""

    def _begin(self) -> None:
        if self.writer is not None:
            self._writer = self.writer
            return
        make: Any = summary_writer()
        self._writer = make(None if self.log_dir is None else str(self.log_dir))

    def _scalars(self, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            if math.isfinite(value):
                self._writer.add_scalar(self.prefix + name, value, step)

    def _parameters(self, values: dict[str, str]) -> None:
        rows = "".join(f"| {name} | `{text}` |\n" for name, text in values.items())
        self._writer.add_text(
            f"{self.prefix}parameters", f"| parameter | value |\n|---|---|\n{rows}"
        )

    def _words(self, values: dict[str, str]) -> None:
        for name, text in values.items():
            self._writer.add_text(self.prefix + name, text, self._step)

    def _finish(self, failed: bool) -> None:
        self._writer.flush()
        if self.writer is None:
            self._writer.close()


def summary_writer() -> Any:
    """Import ``SummaryWriter``, the class that writes event files, from tensorboardX or torch."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ImportError(
                "callbacks.TensorBoard needs tensorboardX: pip install 'maxmargin[tensorboard]' (or torch "
                "with tensorboard)",
                name="tensorboardX",
            ) from None
    return SummaryWriter


def parameter_texts(estimator: Any) -> dict[str, str]:
    """The parameters of an estimator and of its nested objects, as short texts."""
    values = {"estimator": type(estimator).__name__}
    for name, value in estimator.get_params(deep=True).items():
        text = repr(value)
        values[name] = text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
    return values
