"""Progress bars of tqdm and rich, the line in a notebook, and the callbacks of scikit-learn 1.9."""

import importlib.util
import io
import math
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin as mm
from maxmargin import models
from maxmargin.callbacks import Callback, Progress, ProgressBar, ProgressLine

DRAWN = ("tqdm", "rich")


@pytest.fixture(scope="module")
def sequences():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 4)) for _ in range(30)]
    return X, [(x @ [1.0, -1.0, 0.5, 0.0] > 0).astype(int) for x in X]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    return X, (X @ [1.0, -1.0, 0.5, 0.0] > 0).astype(int)


def drawn(library, out):
    """Return a bar that draws every update to a stream."""
    pytest.importorskip(library)
    if library == "tqdm":
        return ProgressBar(file=out, mininterval=0, ascii=True)
    from rich.console import Console

    return ProgressBar("rich", console=Console(file=out, width=120, force_terminal=True))


@pytest.mark.parametrize("library", DRAWN)
def test_a_bar_is_full_at_the_end_of_a_solved_fit(library, sequences):
    out = io.StringIO()
    svm = mm.StructuralSVM(models.Chain(), tol=1e-3, random_state=0)
    svm.fit(*sequences, callbacks=[drawn(library, out)])
    last = out.getvalue()
    assert "100%" in last and f"gap {svm.certificate_.gap:.3g}" in last and "solved" in last
    assert svm.solver_ in last


@pytest.mark.parametrize("library", DRAWN)
def test_a_bar_is_not_full_where_a_budget_ended(library, sequences):
    out = io.StringIO()
    svm = mm.StructuralSVM(models.Chain(), tol=1e-9, max_passes=4, random_state=0)
    with pytest.warns(match="not converged"):
        svm.fit(*sequences, callbacks=[drawn(library, out)])
    assert "100%" not in out.getvalue()


@pytest.mark.parametrize("library", DRAWN)
def test_a_bar_is_closed_where_a_fit_fails(library, sequences):
    class Fails(Callback):
        def on_step(self, info):
            raise RuntimeError("as planned")

    bar = drawn(library, io.StringIO())
    for _ in range(2):  # rich refuses a second live display
        with pytest.raises(RuntimeError, match="as planned"):
            mm.StructuralSVM(models.Chain()).fit(*sequences, callbacks=[bar, Fails()])
    assert bar._bar is None


def test_the_bar_goes_with_the_logarithm_of_the_gap_and_never_back():
    pytest.importorskip("tqdm")
    bar = ProgressBar(file=io.StringIO())
    bar.on_start(Progress(tol=1e-4))
    done = []
    for gap in (1.0, 0.1, 0.01, 0.05, 1e-5):
        bar.on_step(Progress(tol=1e-4, estimate=gap))
        done.append(bar._done)
    # the last gap is below tol, but not proven
    assert done == pytest.approx([0.0, 25.0, 50.0, 50.0, 99.0])
    bar.on_step(Progress(tol=1e-4, estimate=1e-5, gap=5e-5))
    assert bar._done == 100.0
    bar.on_end(Progress(tol=1e-4, gap=5e-5, status="solved"))


def test_an_unknown_library_is_refused():
    with pytest.raises(ValueError, match=r"library.*'curses'"):
        ProgressBar("curses")


@pytest.mark.parametrize("library", DRAWN)
def test_a_missing_library_is_named(library, monkeypatch, sequences):
    for name in ("tqdm", "tqdm.auto", "rich", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"{library}: pip install"):
        mm.StructuralSVM(models.Chain()).fit(*sequences, callbacks=[ProgressBar(library)])


def test_a_line_is_rewritten_in_a_notebook():
    class OutStream(io.StringIO):
        """Looks like a kernel's stream: not a terminal, but it handles carriage returns."""

    OutStream.__module__ = "ipykernel.iostream"
    out = OutStream()
    line = ProgressLine(out, interval=0)
    line.on_start(Progress())
    for step in (1, 2, 3):
        line.on_step(Progress(step=step, passes=step))
    line.on_end(Progress(step=3, status="solved"))
    assert out.getvalue().count("\r") == 4 and out.getvalue().count("\n") == 1


# scikit-learn's own callbacks.


class Listener:
    """Records the tasks that scikit-learn reports, and stops after some steps."""

    def __init__(self, stop_at=math.inf):
        self.received, self.steps, self.stop_at = [], [], stop_at

    def setup(self, estimator, context):
        self.received.append("setup")

    def teardown(self, estimator, context):
        self.received.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.received.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        if context.task_name != "step":
            self.received.append(f"end {context.task_name}")
            return False
        self.steps.append(fitted_estimator.score(X, y))
        return len(self.steps) >= self.stop_at


@pytest.fixture
def callback():
    return pytest.importorskip("sklearn.callback")


@pytest.mark.parametrize("kind", ["structural", "flat"])
def test_steps_are_tasks_with_fitted_estimators(callback, sequences, rows, kind):
    svm, data = mm.StructuralSVM(models.Chain(), random_state=0), sequences
    if kind == "flat":
        svm, data = mm.MulticlassSVC(random_state=0), rows
    listener = Listener()
    svm.set_callbacks(listener).fit(*data)
    assert len(listener.steps) == len(svm.history_["passes"])
    assert listener.received[:2] == ["setup", "begin fit"]
    assert listener.received[-2:] == ["end fit", "teardown"]
    assert listener.steps[-1] == pytest.approx(svm.score(*data), abs=0.05)
    plain = clone(svm).set_callbacks()
    assert np.array_equal(plain.fit(*data).coef_, svm.coef_)


def test_a_callback_may_stop_training(callback, sequences):
    listener = Listener(stop_at=2)
    svm = mm.StructuralSVM(models.Chain(), tol=1e-9, random_state=0).set_callbacks(listener)
    with pytest.warns(match="stopped"):
        svm.fit(*sequences)
    assert len(listener.steps) == 2 and listener.received[-1] == "teardown"


def test_a_callback_hears_the_end_of_a_fit_that_fails(callback, sequences):
    listener = Listener()
    svm = mm.StructuralSVM(models.Chain()).set_callbacks(listener)
    with pytest.raises(ValueError, match="examples"):
        svm.fit(sequences[0], sequences[1][:-1])
    assert listener.received == ["setup", "begin fit", "teardown"]


@pytest.mark.filterwarnings("error")
def test_callbacks_come_through_pipelines_and_searches(callback, rows):
    class Propagated(Listener):
        max_propagation_depth = None

        def on_fit_task_end(self, estimator, context):
            self.received.append(f"{context.estimator_name} {context.task_name}")

    listener = Propagated()
    pipeline = make_pipeline(StandardScaler(), mm.MulticlassSVC(random_state=0))
    search = GridSearchCV(pipeline, {"multiclasssvc__C": [0.1, 1.0]}, cv=2)
    search.set_callbacks(listener).fit(*rows)
    assert listener.received.count("MulticlassSVC fit") == 5  # two C, two folds, and the final fit
    assert "MulticlassSVC step" in listener.received


def test_progress_bar_and_monitor_of_scikit_learn(callback, sequences):
    pytest.importorskip("rich")
    monitor = callback.ScoringMonitor(scoring={"nodes": lambda svm, X, Y: svm.score(X, Y)})
    svm = mm.StructuralSVM(models.Chain(), random_state=0)
    svm.set_callbacks(callback.ProgressBar(), monitor).fit(*sequences)
    scores = [row["nodes"] for row in monitor.get_logs().data if row["task_name"] == "step"]
    assert len(scores) == len(svm.history_["passes"]) and max(scores) > 0.9


def test_a_search_of_c_is_one_task(callback, rows):
    listener = Listener()
    mm.MulticlassSVCCV(Cs=[0.1, 1.0], cv=2).set_callbacks(listener).fit(*rows)
    assert listener.received == ["setup", "begin fit", "end fit", "teardown"]


@pytest.mark.parametrize("name", ["maxmargin._sklearn", "maxmargin.estimators.hooks"])
def test_an_older_scikit_learn_has_no_such_callbacks(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    spec = importlib.util.find_spec(name)
    twin = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(twin)
    if name.endswith("hooks"):
        assert twin.with_callbacks(len) is len
    else:
        assert not hasattr(twin.CallbackSupportMixin, "set_callbacks")
