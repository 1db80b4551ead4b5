"""Callbacks read the progress, write to the requested place, and stop training on request."""

import io
import logging
import math
from dataclasses import FrozenInstanceError

import pytest

from maxmargin.callbacks import (
    Callback,
    EarlyStop,
    Forecast,
    LogProgress,
    Progress,
    ProgressLine,
    describe,
)


def geometric(step, seconds_per_step=1.0, **more):
    """The progress of a training whose estimated gap halves at every step."""
    known = {
        "step": step,
        "seconds": step * seconds_per_step,
        "passes": float(step),
        "oracle_calls": 100 * step,
        "primal": 2.0,
        "dual": 1.0,
        "estimate": 0.5**step,
        "planes": 10 * step,
        "tol": 2.0**-20,
        "solver": "sda",
    }
    return Progress(**(known | more))


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    """A clock that advances by a fixed amount each time it is read."""

    def __init__(self, tick):
        self.now, self.tick = 0.0, tick

    def __call__(self):
        self.now += self.tick
        return self.now


def run(callback, steps, **more):
    callback.on_start(geometric(0))
    answers = [callback.on_step(geometric(step, **more)) for step in range(1, steps + 1)]
    callback.on_end(geometric(steps, gap=0.25, status="solved"))
    return answers


def test_progress_is_frozen():
    with pytest.raises(FrozenInstanceError):
        geometric(1).step = 2


def test_base_callback_does_nothing():
    assert not any(run(Callback(), 3))


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (EarlyStop(seconds=3), [False, False, True, True]),
        (EarlyStop(passes=2), [False, True, True, True]),
        (EarlyStop(when=lambda info: info.estimate < 0.1), [False, False, False, True]),
        (EarlyStop(seconds=100, passes=3), [False, False, True, True]),
    ],
)
def test_early_stop(stop, expected):
    assert run(stop, 4) == expected


def test_early_stop_checks_its_arguments():
    with pytest.raises(ValueError, match="seconds, passes or when"):
        EarlyStop()
    with pytest.raises(ValueError, match=r"passes.*above 0.*-1"):
        EarlyStop(passes=-1)
    with pytest.raises(TypeError, match=r"when.*callable.*int"):
        EarlyStop(when=3)


def test_line_is_rewritten_on_a_terminal():
    out = Terminal()
    run(ProgressLine(out, clock=Clock(1.0)), 6)
    text = out.getvalue()
    assert text.count("\n") == 1 and text.endswith("\n")
    assert text.count("\r") == 7
    assert "sda: solved" in text.split("\r")[-1]


def test_a_shorter_line_wipes_a_longer_one():
    out = Terminal()
    line = ProgressLine(out, clock=Clock(1.0))
    line.on_start(geometric(0))
    line.on_step(geometric(1, primal=1.23456, dual=0.123456))
    line.on_step(geometric(1, primal=1.0, dual=0.0))
    long, short = out.getvalue().split("\r")[1:]
    assert len(long) == len(short) and short.endswith(" ")


def test_lines_get_rarer_in_a_file():
    out = io.StringIO()
    run(ProgressLine(out, interval=1.0, growth=2.0, clock=Clock(1.0)), 64)
    lines = out.getvalue().splitlines()
    assert "\r" not in out.getvalue()
    assert [line.split()[1] for line in lines[:-1]] == ["1", "2", "4", "8", "16", "32", "64"]
    assert lines[-1].startswith("sda: solved")


def test_default_stream_is_standard_error(capsys):
    run(ProgressLine(), 2)
    captured = capsys.readouterr()
    assert captured.out == "" and "pass 1" in captured.err


def test_an_estimate_is_marked():
    assert "gap ~0.5 " in describe(geometric(1))
    assert "gap 0.25  planes" in describe(geometric(1, gap=0.25))
    assert "gap 0.75 ~0.5  planes" in describe(geometric(1, gap=0.75))
    assert "primal ?  dual ?  gap ? " in describe(Progress())


def test_counters_appear_in_the_line():
    line = describe(geometric(3))
    for part in ("pass 3 ", "calls 300 ", "primal 2 ", "dual 1 ", "planes 30 ", "3.0s"):
        assert part in line
    assert "pass 2.5 " in describe(geometric(3, passes=2.5))


def test_time_left_follows_a_straight_line():
    forecast = Forecast()
    for step in range(1, 11):
        forecast.observe(geometric(step))
    left = forecast.time_left(geometric(10))
    assert left.seconds == pytest.approx(10.0) and not left.at_limit
    assert "~10s to tol" in describe(geometric(10), left)


@pytest.mark.parametrize("limit", [{"max_seconds": 14.0}, {"max_passes": 14}])
def test_time_left_ends_at_a_budget(limit):
    forecast = Forecast()
    for step in range(1, 11):
        forecast.observe(geometric(step))
    left = forecast.time_left(geometric(10, **limit))
    assert left.seconds == pytest.approx(4.0) and left.at_limit
    assert "~4.0s to limit" in describe(geometric(10), left)


def test_time_left_is_silent_when_it_cannot_be_told():
    few, flat, unknown, instant = Forecast(), Forecast(), Forecast(), Forecast()
    for step in range(1, 10):
        flat.observe(geometric(step, estimate=0.5))
        unknown.observe(geometric(step, estimate=math.inf))
        instant.observe(geometric(step, seconds=0.0))
    few.observe(geometric(1))
    for forecast in (few, flat, unknown, instant):
        assert forecast.time_left(geometric(10)) is None


def test_time_left_is_silent_once_only_the_certificate_is_missing():
    forecast = Forecast()
    for step in range(1, 31):
        forecast.observe(geometric(step))
    assert forecast.time_left(geometric(30)) is None


def test_progress_is_logged(caplog):
    with caplog.at_level(logging.INFO, logger="maxmargin"):
        run(LogProgress(), 2)
    messages = [record.getMessage() for record in caplog.records]
    assert [record.name for record in caplog.records] == ["maxmargin"] * 4
    assert "training to a gap" in messages[0]
    assert "pass 1 " in messages[1]
    assert "sda: solved" in messages[3] and "gap 0.25 (tol 9.54e-07)" in messages[3]
