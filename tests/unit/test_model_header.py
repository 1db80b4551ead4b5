"""Headers of model files that save never writes are refused."""

import numpy as np
import pytest

import maxmargin as mm
from helpers import quietly, refusal
from maxmargin import models, solvers
from maxmargin.io import model_file


def edited(path, change):
    """Rewrite the file with a changed header or arrays, and a valid checksum."""
    header, arrays = model_file.read(path)
    change(header, arrays)
    model_file.write(path, header, arrays)
    return path


def at(header, place, value):
    """Set a value in the header, at a path such as "model.parts"."""
    *path, last = place.split(".")
    for key in path:
        header = header[key]
    header[last] = value


@pytest.fixture(scope="module")
def hidden(seed):
    """Return a small model with hidden parts."""
    generator = np.random.default_rng(seed)
    X, y = generator.normal(size=(12, 2)), [0, 1, 2] * 4
    svm = mm.LatentSVM(models.Latent(models.Multiclass(), parts=2), max_rounds=1, tol=0.5)
    return quietly(lambda: svm.fit(X, y))


@pytest.fixture
def latent(hidden, tmp_path):
    """Return the file of a model with hidden parts."""
    hidden.save(tmp_path / "latent")
    return tmp_path / "latent"


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("model.parts", [2, 2**31, 2]),
        ("model.parts", [2, -2, 2]),
        ("model.parts", [2, 2.0, 2]),
        ("model.dtype", "<U99999999"),
        ("model.dtype", "<M8[s]"),
        ("model.dtype", 8),
        ("model.classes", [0, 1, 1]),
        ("model.classes", [0, 1, 2.5]),
        ("model.classes", [[0], [1], [2]]),
        ("model.classes", 3),
        ("model.n_features", -2),
        ("model.n_features", 2**70),
        ("model.n_features", 2.0),
        ("model.n_features", True),
        ("model.bias", float("nan")),
        ("model.bias", 0),
        ("model.bias", 10**400),
        ("model.start", "anywhere"),
        ("model.kind", "os.system"),
        ("model.kind", "Multiclass"),
        ("model.kind", ["Latent"]),
        ("model.classes_given", "yes"),
        ("model.extra", 1),
        ("extra", 1),
        ("params.warm_start", "no"),
        ("model", None),
        ("estimator", "StructuralSVM"),
        ("estimator", "Pickle"),
        ("estimator", []),
        ("solver", "quantum"),
        ("solver", None),
        ("solver", {"name": "sda"}),
        ("solver", {"name": "sda", "options": {}, "code": 1}),
        ("solver", {"name": "sda", "options": {"order": 5}}),
        ("solver", {"name": "sda", "options": {"command": "x"}}),
        ("params.C", float("inf")),
        ("params.C", float("nan")),
        ("params.C", -1.0),
        ("params.C", 10**400),
        ("params.tol", "small"),
        ("params.n_jobs", 10**9),
        ("params.n_jobs", 0),
        ("params.random_state", -1),
        ("params.max_rounds", 1.5),
        ("params.hinge", "soft"),
        ("params.fit_intercept", True),
        ("params", []),
        ("certificate.gap", "tiny"),
        ("certificate.exact", 3),
        ("certificate.status", None),
        ("certificate.proof", 1),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_header_that_save_could_not_have_written_is_refused(latent, place, value):
    assert mm.load(latent)  # the unchanged file
    edited(latent, lambda header, arrays: at(header, place, value))
    with refusal(str(latent), kinds=(mm.ModelFileError,)):
        mm.load(latent)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "9" * 9000,
        "[]",
        "nil",
        '{"model": 1, "model": 2}',
        '{"model": 9' + "9" * 5000,
    ],
    ids=["deep", "long", "list", "none", "twice", "digits"],
)
def test_header_text_that_no_parser_likes_is_refused(latent, text, monkeypatch):
    _, arrays = model_file.read(latent)
    monkeypatch.setattr(model_file.json, "dumps", lambda *_, **__: text)
    model_file.write(latent, {}, arrays)
    with refusal(str(latent), kinds=(mm.ModelFileError,)):
        mm.load(latent)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.pop("w"),
        lambda arrays: arrays.pop("cost"),
        lambda arrays: arrays.update(w=arrays["w"][:-1]),
        lambda arrays: arrays.update(w=arrays["w"] * np.nan),
        lambda arrays: arrays.update(w=arrays["w"] + np.inf),
        lambda arrays: arrays.update(w=arrays["w"].astype(np.float32)),
        lambda arrays: arrays.update(w=arrays["w"].reshape(-1, 1)),
        lambda arrays: arrays.update(cost=arrays["cost"][0]),
        lambda arrays: arrays.update(cost=-arrays["cost"]),
        lambda arrays: arrays.update(extra=arrays["cost"]),
        lambda arrays: arrays.update({"prior.mean": arrays["w"]}),
        lambda arrays: arrays.update(nonnegative=np.array([10**6])),
    ],
)
def test_arrays_that_do_not_fit_their_model_are_refused(latent, change):
    edited(latent, lambda header, arrays: change(arrays))
    with refusal(str(latent), kinds=(mm.ModelFileError,)):
        mm.load(latent)


def test_a_solver_of_ones_own_is_code_and_auto_in_the_file(generator, tmp_path):
    class Mine(solvers.SDA):
        name = "mine"

    svm = mm.MulticlassSVC(solver=Mine()).fit(generator.normal(size=(9, 2)), [0, 1, 2] * 3)
    svm.save(tmp_path / "own")
    assert mm.load(tmp_path / "own").solver == "auto"
