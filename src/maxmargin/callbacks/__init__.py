"""Callbacks for training: progress bars and lines, log records, early stopping, experiment trackers."""

from maxmargin.callbacks.bars import ProgressBar
from maxmargin.callbacks.lines import Forecast, LogProgress, ProgressLine, describe
from maxmargin.callbacks.protocol import Callback, Progress
from maxmargin.callbacks.stopping import EarlyStop, EarlyStopping
from maxmargin.callbacks.trackers import MLflow, TensorBoard

__all__ = [
    "Callback",
    "EarlyStop",
    "EarlyStopping",
    "Forecast",
    "LogProgress",
    "MLflow",
    "Progress",
    "ProgressBar",
    "ProgressLine",
    "TensorBoard",
    "describe",
]
