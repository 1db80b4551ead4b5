"""Probabilities of the log loss, beside probabilities of margins with a temperature.

A fifth of the training examples is held out: the last fifth of a text, or random letters. It serves
to fit the temperature of every machine, and to choose the C with the best Brier score. Calibration
error is the mean distance of confidence and accuracy over 15 bins of confidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import maxmargin as mm
from benchmarks.confidence.__main__ import brier, measures
from benchmarks.crf.regression import timed
from benchmarks.datasets import Dataset
from maxmargin import models

Row = dict[str, Any]
STRENGTHS = (0.1, 0.5, 2.0)  # values of C
MACHINES: dict[str, Callable[..., Any]] = {
    "hinge": mm.StructuralSVM,
    "softmax margin": lambda model, **given: mm.CRF(model, formulation="softmax-margin", **given),
    "log loss": mm.CRF,
}


def held_out(data: Dataset) -> tuple[tuple[list, list], tuple[list, list]]:
    """Split the training part: four fifths to train on, and one fifth held out."""
    order = np.arange(data.size)
    if not data.sentences:
        order = np.random.default_rng(0).permutation(order)
    parts = np.split(order, [data.size - data.size // 5])
    first, last = (
        ([data.X_train[i] for i in own], [data.Y_train[i] for i in own]) for own in parts
    )
    return first, last


def calibration(data: Dataset) -> list[Row]:
    """Return a row for each machine, and one more for its temperature."""
    train, held = held_out(data)
    classes = np.unique(np.concatenate(data.Y_train))
    rows: list[Row] = []
    for name, make in MACHINES.items():
        fits = []
        for C in STRENGTHS:
            model = models.Chain(bias=None if data.sentences else 1.0, classes=classes)
            machine = make(model, C=C, random_state=0)
            _, cpu = timed(lambda machine=machine: machine.fit(*train))
            machine.calibrate(*held)
            score = brier((machine.predict_marginals(held[0]), classes), held[1])
            fits.append((score, C, machine, cpu))
        _, C, machine, cpu = min(fits, key=lambda own: own[0])
        for learner, temperature in ((name, 1.0), (f"{name}, scaled", machine.temperature_)):
            p = machine.predict_marginals(data.X_test, temperature=temperature)
            found = measures((p, classes), data.Y_test)
            row = {"learner": learner, "train_cpu": cpu, "C": C, "test_error": found["error"]}
            row |= {"calibration": found["calibration"], "selective": found["selective"]}
            rows.append(row | {"temperature": temperature})
    return rows
