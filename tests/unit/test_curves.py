"""The convergence plot draws what a history holds, and explains what it cannot draw."""

import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from maxmargin.report import convergence_plot


def history(n=6):
    steps = np.arange(1.0, n + 1)
    gap = np.where(steps < 3, np.inf, 0.1**steps)
    return {"seconds": steps / 10, "passes": steps, "gap": gap, "estimate": 0.2**steps}


def test_two_panels_and_a_file(tmp_path):
    path = tmp_path / "curves.png"
    figure = convergence_plot({"sda": history(), "bcfw": history(3)}, path, tol=1e-3)
    assert path.stat().st_size > 5_000
    assert [ax.get_xscale() for ax in figure.axes] == ["log", "log"]
    assert [ax.get_yscale() for ax in figure.axes] == ["log", "log"]
    named = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert named == ["sda", "bcfw", "running estimates"]


def test_uncertified_steps_are_left_out_of_the_gap():
    ax = Figure().subplots()
    convergence_plot({"sda": history(6)}, ax=ax, against="seconds")
    certified, estimated, *_ = ax.get_lines()
    assert list(certified.get_xdata()) == pytest.approx([0.3, 0.4, 0.5, 0.6])
    assert len(estimated.get_xdata()) == 6


def test_a_history_that_was_never_certified_can_be_drawn(tmp_path):
    never = history() | {"gap": np.full(6, np.inf)}
    convergence_plot({"bcfw": never}, tmp_path / "never.png")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"histories": {}}, "at least one"),
        ({"histories": {"sda": {"passes": [1.0]}}}, "'sda' has no key 'gap'"),
        ({"histories": {"sda": history() | {"gap": [1.0]}}}, "6 entries of passes but 1 of gap"),
        ({"histories": {"sda": history()}, "against": "steps"}, "'passes' or 'seconds'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        convergence_plot(**arguments)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install maxmargin\[plots\]"):
        convergence_plot({"sda": history()})
