"""Plots take and return axes; they draw the given data, and raise if they cannot."""

import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

import maxmargin as mm
from maxmargin import models
from maxmargin.report import (
    convergence_plot,
    plot_confusion,
    plot_convergence,
    plot_path,
    plot_weights,
    validation_plot,
)


def history(n=6):
    steps = np.arange(1.0, n + 1)
    gap = np.where(steps < 3, np.inf, 0.1**steps)
    return {"seconds": steps / 10, "passes": steps, "gap": gap, "estimate": 0.2**steps}


def rows(n=60, d=6, K=3):
    X = np.random.default_rng(0).normal(size=(n, d))
    return X, X[:, :K].argmax(axis=1)


@pytest.fixture
def ax():
    return Figure().subplots()


# Convergence.


def test_curves_of_several_trainings(ax):
    assert plot_convergence({"sda": history(), "bcfw": history(3)}, ax, tol=1e-3) is ax
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    named = [text.get_text() for text in ax.get_legend().get_texts()]
    assert named == ["sda", "bcfw", "running estimates"]


def test_uncertified_steps_are_left_out_of_the_gap(ax):
    plot_convergence({"sda": history(6)}, ax, against="seconds")
    certified, estimated, *_ = ax.get_lines()
    assert list(certified.get_xdata()) == pytest.approx([0.3, 0.4, 0.5, 0.6])
    assert len(estimated.get_xdata()) == 6


def test_a_fitted_estimator_and_a_new_figure(tmp_path):
    svm = mm.MulticlassSVC().fit(*rows())
    ax = plot_convergence(svm)
    ax.figure.savefig(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 5_000
    assert ax.get_lines()[0].get_ydata()[-1] == svm.history_["gap"][-1]


def test_a_history_that_was_never_certified_can_be_drawn(tmp_path):
    never = history() | {"gap": np.full(6, np.inf)}
    plot_convergence({"bcfw": never}).figure.savefig(tmp_path / "never.png")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trained": {}}, "at least one"),
        ({"trained": {"sda": {"passes": [1.0]}}}, "'sda' has no history with 'passes' and 'gap'"),
        ({"trained": mm.MulticlassSVC()}, "no history"),
        ({"trained": {"sda": history() | {"gap": [1.0]}}}, "6 entries of passes but 1 of gap"),
        ({"trained": {"sda": history()}, "against": "steps"}, "'passes' or 'seconds'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        plot_convergence(**arguments)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install maxmargin\[plots\]"):
        plot_convergence({"sda": history()})


# The choice of C.


def test_folds_their_mean_and_the_best_c(ax):
    search = mm.MulticlassSVCCV(Cs=[0.01, 0.1, 1], cv=2).fit(*rows())
    assert plot_path(search, ax) is ax
    *folds, mean, best = ax.get_lines()
    assert len(folds) == 2 and list(mean.get_xdata()) == [0.01, 0.1, 1]
    assert np.allclose(mean.get_ydata(), search.scores_.mean(axis=0))
    assert best.get_xdata()[0] == search.C_


def test_a_path_with_validation(ax):
    X, y = rows()
    path = mm.regularization_path(mm.MulticlassSVC(), X, y, [0.1, 1], validation=(X, y))
    score, best = plot_path(path, ax).get_lines()
    assert np.allclose(score.get_ydata(), path.scores) and best.get_xdata()[0] == path.best.C
    for without in (mm.regularization_path(mm.MulticlassSVC(), X, y, [0.1]), mm.MulticlassSVC()):
        with pytest.raises(ValueError, match="search: expected"):
            plot_path(without)


# Confusion and weights.


def test_counts_are_written_where_they_are_not_zero(ax):
    Y, P = [["a", "b"], ["a"]], [["a", "a"], ["a"]]
    assert plot_confusion(Y, P, ax) is ax
    assert {(t.get_position(), t.get_text()) for t in ax.texts} == {((0, 0), "2"), ((0, 1), "1")}
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert ax.images[0].get_array().tolist() == [[1, 0], [1, 0]]
    only = plot_confusion([1, 2, 3], [1, 2, 2], labels=[2, 3])
    assert [label.get_text() for label in only.get_xticklabels()] == ["2", "3"]


def test_weights_as_bars(ax):
    svm = mm.StructuralSVM(models.Multiclass()).fit(*rows())
    assert plot_weights(svm, 1, ax, k=2) is ax
    widths = [bar.get_width() for bar in ax.patches]
    own = np.sort(svm.feature_weights(1))
    assert np.allclose(widths, np.concatenate([own[own < 0][:2], own[own > 0][-2:]]))
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert [svm.feature_names_.tolist().index(name) for name in names] == [
        int(np.flatnonzero(svm.feature_weights(1) == width)[0]) for width in widths
    ]


def test_weights_as_an_image(ax):
    svm = mm.MulticlassSVC().fit(*rows())
    plot_weights(svm, 2, ax, shape=(2, 3))
    assert np.allclose(ax.images[0].get_array(), svm.coef_[2].reshape(2, 3))
    with pytest.raises(ValueError, match=r"shape must be \(height, width\) of 6 features"):
        plot_weights(svm, 2, shape=(2, 2))


def test_the_names_that_plots_had_still_draw_and_warn(tmp_path):
    history = {name: np.array([1.0, 2.0, 3.0]) for name in ("passes", "seconds", "gap", "estimate")}
    with pytest.warns(FutureWarning, match="use plot_convergence"):
        figure = convergence_plot({"a": history}, tmp_path / "a.png", tol=0.1)
    assert len(figure.axes) == 2 and (tmp_path / "a.png").stat().st_size > 0
    with pytest.warns(FutureWarning, match="use plot_convergence"):
        assert convergence_plot({"a": history}, ax=figure.axes[0]) is figure
    with pytest.warns(FutureWarning, match="use plot_path"):
        figure = validation_plot([0.1, 1.0], [[0.5, 0.7], [0.6, 0.8]], tmp_path / "b.png")
    assert len(figure.axes) == 1 and (tmp_path / "b.png").stat().st_size > 0
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="scores: expected"):
        validation_plot([1.0], [[1.0, 2.0]])
