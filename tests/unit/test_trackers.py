"""Trackers of experiments, written by the real packages and read back from their files."""

import math

import numpy as np
import pytest

import maxmargin as mm
from maxmargin import models
from maxmargin.callbacks import Callback, MLflow, Progress, TensorBoard
from maxmargin.callbacks.trackers import LONGEST, parameter_texts

STEPS = {"primal", "dual", "gap", "passes", "oracle_calls", "planes", "seconds"}
PROVEN = {"primal", "dual", "gap", "tol", "passes", "oracle_calls", "support", "seconds"}


def tagger(**parameters):
    return mm.StructuralSVM(models.Chain(), **({"C": 1.0, "random_state": 0} | parameters))


@pytest.fixture(scope="module")
def sequences():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 4)) for _ in range(30)]
    return X, [(x @ [1.0, -1.0, 0.5, 0.0] > 0).astype(int) for x in X]


class Fails(Callback):
    """Ends a fit by an error after its first step."""

    def on_step(self, info):
        raise RuntimeError("as planned")


class Listener(Callback):
    """Records what an estimator reports."""

    def __init__(self):
        self.received = []

    def on_fit_start(self, estimator):
        self.received.append(("start", type(estimator).__name__))

    def on_fit_end(self, estimator):
        self.received.append(("end", estimator is not None and hasattr(estimator, "certificate_")))


FITS = {
    "structural": lambda X, Y, **k: tagger().fit(X, Y, **k),
    "crf": lambda X, Y, **k: mm.CRF(models.Chain()).fit(X, Y, **k),
    "latent": lambda X, Y, **k: mm.LatentSVM(models.Chain()).fit(X, Y, **k),
    "multiclass": lambda X, Y, **k: mm.MulticlassSVC().fit(X[0], Y[0], **k),
    "binary": lambda X, Y, **k: mm.BinarySVC().fit(X[0], Y[0], **k),
    "logistic": lambda X, Y, **k: mm.MulticlassLogistic().fit(X[0], Y[0], **k),
    "regression": lambda X, Y, **k: mm.RegressionSVR().fit(X[0], Y[0], **k),
    "generalized": lambda X, Y, **k: mm.GeneralizedSVM().fit(X[0], 1.0, **k),
}


@pytest.mark.parametrize("name", FITS)
def test_every_fit_tells_its_beginning_and_end_once(sequences, name):
    listener = Listener()
    svm = FITS[name](*sequences, callbacks=[listener])
    assert listener.received == [("start", type(svm).__name__), ("end", True)]


def test_a_failed_fit_tells_its_end(sequences):
    listener = Listener()
    with pytest.raises(RuntimeError, match="as planned"):
        tagger().fit(*sequences, callbacks=[listener, Fails()])
    assert listener.received == [("start", "StructuralSVM"), ("end", False)]


def test_a_path_tells_of_every_c(sequences):
    listener = Listener()
    mm.regularization_path(tagger(), *sequences, [0.1, 1.0], callbacks=[listener])
    assert listener.received == [("start", "StructuralSVM"), ("end", True)] * 2


def test_parameters_are_short_texts_with_those_of_the_model():
    values = parameter_texts(tagger(prior=(np.zeros(10_000), 1.0)))
    assert values["estimator"] == "StructuralSVM" and values["C"] == "1.0"
    assert "model__loss" in values and values["model__loss"] == "'hamming'"
    assert all(len(text) <= LONGEST for text in values.values())


def test_an_interval_must_be_a_time():
    with pytest.raises(ValueError, match=r"MLflow: interval.*-1"):
        MLflow(interval=-1)
    with pytest.raises(ValueError, match=r"TensorBoard: interval.*inf"):
        TensorBoard(interval=math.inf)


# MLflow.


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("GIT_PYTHON_REFRESH", "quiet")
    monkeypatch.chdir(tmp_path)
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    yield mlflow
    while mlflow.active_run():
        mlflow.end_run()


def runs(mlflow):
    return mlflow.search_runs(search_all_experiments=True, output_format="list")


def test_mlflow_has_parameters_steps_certificate_and_model(mlflow, sequences, tmp_path):
    svm = tagger(tol=1e-3).fit(
        *sequences, callbacks=[MLflow(run_name="names", model_file="m.safetensors", interval=0)]
    )
    (run,) = runs(mlflow)
    assert run.info.status == "FINISHED" and run.info.run_name == "names"
    assert mlflow.active_run() is None
    assert run.data.params["C"] == "1.0" and run.data.params["model"] == repr(svm.model)
    assert set(run.data.metrics) >= STEPS | {f"certificate/{name}" for name in PROVEN}
    assert run.data.metrics["certificate/gap"] == svm.certificate_.gap
    assert run.data.metrics["certificate/converged"] == 1.0
    assert run.data.tags["maxmargin.certificate"] == str(svm.certificate_)
    assert run.data.tags["maxmargin.solver"] == svm.solver_
    steps = mlflow.MlflowClient().get_metric_history(run.info.run_id, "passes")
    assert [entry.value for entry in steps[:-1]] == svm.history_["passes"].tolist()
    path = mlflow.artifacts.download_artifacts(
        run_id=run.info.run_id, artifact_path="m.safetensors", dst_path=str(tmp_path)
    )
    loaded = mm.load(path)
    assert all(
        (a == b).all()
        for a, b in zip(loaded.predict(sequences[0]), svm.predict(sequences[0]), strict=True)
    )


def test_mlflow_writes_to_the_run_that_is_active(mlflow, sequences):
    with mlflow.start_run() as outer:
        tagger().fit(*sequences, callbacks=[MLflow()])
        assert mlflow.active_run().info.run_id == outer.info.run_id
    (run,) = runs(mlflow)
    assert run.info.run_id == outer.info.run_id and "certificate/gap" in run.data.metrics


def test_mlflow_makes_nested_runs_for_a_search(mlflow, sequences):
    with mlflow.start_run() as outer:
        mm.regularization_path(tagger(), *sequences, [0.1, 1.0], callbacks=[MLflow(nested=True)])
    found = {run.info.run_id: run for run in runs(mlflow)}
    outer = found.pop(outer.info.run_id)
    assert sorted(run.data.params["C"] for run in found.values()) == ["0.1", "1.0"]
    assert {run.data.tags["mlflow.parentRunId"] for run in found.values()} == {outer.info.run_id}


def test_mlflow_marks_a_failed_run(mlflow, sequences):
    with pytest.raises(RuntimeError, match="as planned"):
        tagger().fit(*sequences, callbacks=[MLflow(), Fails()])
    (run,) = runs(mlflow)
    assert run.info.status == "FAILED" and mlflow.active_run() is None
    tagger().fit(*sequences, callbacks=[MLflow()])
    assert {run.info.status for run in runs(mlflow)} == {"FAILED", "FINISHED"}


def test_mlflow_has_one_run_for_all_rounds_of_hidden_parts(mlflow):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    svm = mm.LatentSVM(models.Latent(models.Multiclass(bias=1.0), 2), C=10.0, random_state=0)
    svm.fit(X, y, callbacks=[MLflow(interval=0)])
    (run,) = runs(mlflow)
    steps = mlflow.MlflowClient().get_metric_history(run.info.run_id, "passes")
    assert len(svm.objective_path_) > 1
    assert sorted(entry.step for entry in steps) == [entry.step for entry in steps]
    assert max(entry.step for entry in steps) > max(len(svm.objective_path_), 2)


def test_mlflow_takes_a_call_of_train(mlflow, sequences):
    problem = problem_of(sequences)
    mm.train(problem, mm.solvers.BCFW(), callbacks=[MLflow(interval=0)])
    (run,) = runs(mlflow)
    assert run.info.status == "FINISHED" and run.data.tags["maxmargin.solver"] == "bcfw"


def problem_of(sequences):
    model = models.Chain()
    model.initialize(*sequences)
    return mm.Problem(model.bind(*sequences), C=1.0)


# TensorBoard.


def events_of(folder):
    pytest.importorskip("tensorboardX")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    found.Reload()
    return found


def texts(events):
    return {
        tag.removesuffix("/text_summary"): events.Tensors(tag)[-1]
        .tensor_proto.string_val[0]
        .decode()
        for tag in events.Tags()["tensors"]
    }


def test_tensorboard_has_steps_parameters_and_certificate(tmp_path, sequences):
    pytest.importorskip("tensorboardX")
    svm = tagger(tol=1e-3).fit(*sequences, callbacks=[TensorBoard(tmp_path)])
    events = events_of(tmp_path)
    assert set(events.Tags()["scalars"]) >= STEPS | {f"certificate/{name}" for name in PROVEN}
    passes = [event.value for event in events.Scalars("passes")]
    assert passes[:-1] == pytest.approx(svm.history_["passes"].tolist())
    (proven,) = events.Scalars("certificate/gap")
    assert proven.value == pytest.approx(svm.certificate_.gap)
    assert texts(events)["certificate"] == str(svm.certificate_)
    assert "| C | `1.0` |" in texts(events)["parameters"]


def test_tensorboard_takes_a_writer_and_leaves_it_open(tmp_path, sequences):
    writer = pytest.importorskip("tensorboardX").SummaryWriter(str(tmp_path))
    tagger().fit(*sequences, callbacks=[TensorBoard(writer=writer, prefix="first/")])
    writer.add_scalar("own", 1.0, 0)
    writer.close()
    assert {"own", "first/gap"} <= set(events_of(tmp_path).Tags()["scalars"])


def test_records_keep_their_interval():
    class Kept:
        """Records the steps that a writer receives."""

        def __init__(self):
            self.steps = []

        def add_scalar(self, name, value, step):
            if name == "passes":
                self.steps.append(step)

        def add_text(self, *_):
            pass

        def flush(self):
            pass

    writer, now = Kept(), [0.0]
    board = TensorBoard(writer=writer, interval=2.0, clock=lambda: now[0])
    board.on_start(Progress())
    for step in range(1, 8):
        now[0] = float(step)
        board.on_step(Progress(step=step, passes=step))
    board.on_end(Progress(step=7, passes=7, status="solved"))
    assert writer.steps == [1, 3, 5, 7, 7]
