"""Checkpoint files: foreign and damaged files are refused, and a full disk stops no fit."""

import json
import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

import maxmargin as mm
from helpers import quietly
from maxmargin import checkpoint as checkpoint_module
from maxmargin import models, solvers
from maxmargin.data.digest import digest_of
from maxmargin.io.model_file import CHECKPOINT, digest, write
from reference.python_chain import PythonMulticlass


def rows(n=30):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 4)) + np.eye(4)[y], y


def structural(**settings):
    return mm.StructuralSVM(models.Multiclass(), **({"tol": 1e-4, "solver": "proximal"} | settings))


def half_done(path, X=None, y=None, svm=None, **given):
    """Save the checkpoint of a fit that ended at its budget."""
    own = rows()
    X, y = own[0] if X is None else X, own[1] if y is None else y
    svm = structural() if svm is None else svm
    quietly(lambda: svm.set_params(max_passes=2).fit(X, y, checkpoint=path, **given))
    return X, y


OTHERS = {
    "C": (lambda X, y: (structural(C=2.0), X, y, {}), "C was 1.0, now it is 2.0"),
    "rescaling": (
        lambda X, y: (structural(rescaling="slack"), X, y, {}),
        "rescaling was 'margin', now it is 'slack'",
    ),
    "solver": (
        lambda X, y: (structural(solver="sda"), X, y, {}),
        "solver was 'proximal', now it is 'sda'",
    ),
    "prior": (lambda X, y: (structural(prior=(0.0, 2.0)), X, y, {}), "prior was None"),
    "model": (
        lambda X, y: (structural().set_params(model=models.Multiclass(bias=1.0)), X, y, {}),
        "model: bias was None, now it is 1.0",
    ),
    "other model": (
        lambda X, y: (structural().set_params(model=models.Chain()), [X], [y], {}),
        "model: kind was 'Multiclass', now it is 'Chain'",
    ),
    "estimator": (
        lambda X, y: (mm.MulticlassSVC(solver="proximal"), X, y, {}),
        "estimator was 'StructuralSVM', now it is 'MulticlassSVC'",
    ),
    "a number of X": (
        lambda X, y: (structural(), X + np.eye(30, 4) * 1e-12, y, {}),
        "checksum of X was",
    ),
    "order": (lambda X, y: (structural(), X[::-1], y[::-1], {}), "checksum of X was"),
    "a label": (lambda X, y: (structural(), X, [*y[:-1], 0], {}), "checksum of Y was"),
    "examples": (lambda X, y: (structural(), X[:20], y[:20], {}), "number of examples was 30"),
    "features": (lambda X, y: (structural(), X[:, :3], y, {}), "number of weights was 12"),
    "weights": (
        lambda X, y: (structural(), X, y, {"sample_weight": np.ones(30)}),
        "checksum of sample_weight was None",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_checkpoint_of_something_else_is_refused_with_the_difference(name, tmp_path):
    path = tmp_path / "fit"
    X, y = half_done(path)
    content = path.read_bytes()
    make, words = OTHERS[name]
    svm, X, y, more = make(X, y)
    with pytest.raises(ValueError, match="is the checkpoint of another fit") as caught:
        svm.fit(X, y, checkpoint=path, resume=True, **more)
    assert words in str(caught.value) and "set resume=False to start over" in str(caught.value)
    assert path.read_bytes() == content and not hasattr(svm, "coef_")


def test_a_checkpoint_of_another_version_is_refused(tmp_path, monkeypatch):
    X, y = half_done(tmp_path / "fit")
    monkeypatch.setattr(checkpoint_module, "version", lambda name: "99.0")
    with pytest.raises(ValueError, match=r"version of maxmargin was .*, now it is '99.0'"):
        structural().fit(X, y, checkpoint=tmp_path / "fit", resume=True)


def test_options_of_solvers_and_own_models_are_compared(tmp_path):
    path = tmp_path / "fit"
    X, y = half_done(path, svm=structural(solver=solvers.Proximal(inner=0.5)))
    with pytest.raises(ValueError, match=r"solver: inner was 0.5, now it is 0.4"):
        structural(solver=solvers.Proximal()).fit(X, y, checkpoint=path, resume=True)
    own = mm.StructuralSVM(PythonMulticlass(1 - np.eye(3)), tol=1e-4)
    half_done(path, list(X), list(y), svm=own)
    with pytest.raises(ValueError, match=r"model was .*PythonMulticlass with checksum"):
        own.set_params(model=PythonMulticlass(2 - 2 * np.eye(3))).fit(
            list(X), list(y), checkpoint=path, resume=True
        )


def test_what_does_not_change_the_problem_may_change(tmp_path):
    X, y = half_done(tmp_path / "fit")
    svm = structural(tol=1e-5, n_jobs=2, random_state=7, verbose=0, warm_start=True)
    svm.fit(X, y, checkpoint=tmp_path / "fit", resume=True)
    assert svm.certificate_.converged


def test_without_a_file_resume_begins(tmp_path):
    X, y = rows()
    svm = structural().fit(X, y, checkpoint=tmp_path / "fit", resume=True)
    assert svm.certificate_.converged and (tmp_path / "fit").is_file()


def test_parameters_are_looked_at_first(tmp_path):
    X, y = rows()
    with pytest.raises(ValueError, match="needs the parameter checkpoint"):
        structural().fit(X, y, resume=True)
    with pytest.raises(ValueError, match="resume must be"):
        structural().fit(X, y, checkpoint=tmp_path / "fit", resume="yes")
    for every in (0, -1.0, np.nan, "often", None):
        with pytest.raises(ValueError, match="checkpoint_every must be a positive number"):
            structural().fit(X, y, checkpoint=tmp_path / "fit", checkpoint_every=every)
    with pytest.raises(ValueError, match="is not a folder"):
        structural().fit(X, y, checkpoint=tmp_path / "nowhere" / "fit")
    with pytest.raises(ValueError, match="is not a regular file"):
        structural().fit(X, y, checkpoint=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_solvers_of_ones_own_without_a_warm_start_are_refused(tmp_path):
    class Cold(solvers.SDA):
        name = "cold"
        continues_from = ()

    X, y = rows()
    with pytest.raises(ValueError, match="solver 'cold' cannot resume"):
        structural(solver=Cold()).fit(X, y, checkpoint=tmp_path / "fit")


# Damage.


@cache
def content_of(kind):
    """Return the bytes of a checkpoint."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit"
        svm = structural()
        if kind == "own":
            svm = mm.StructuralSVM(PythonMulticlass(1 - np.eye(3)), tol=1e-4)
        if kind == "cuts":
            svm = structural(solver="one-slack")
        half_done(path, svm=svm)
        return path.read_bytes()


def resumed(kind, path):
    """Resume a fit from a file."""
    svm = {
        "labels": structural,
        "cuts": lambda: structural(solver="one-slack"),
        "own": lambda: mm.StructuralSVM(PythonMulticlass(1 - np.eye(3)), tol=1e-4),
    }[kind]()
    return svm.fit(*rows(), checkpoint=path, resume=True)


@pytest.mark.parametrize("kind", ["labels", "cuts", "own"])
@given(data=st.data())
def test_damaged_files_are_refused(kind, tmp_path, data):
    whole, path = content_of(kind), tmp_path / "fit"
    broken = bytearray(whole)
    if data.draw(st.booleans(), "truncated"):
        broken = broken[: data.draw(st.integers(0, len(whole) - 1), "length")]
    else:
        places = st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4, unique=True)
        for place in data.draw(places, "places"):
            broken[place] ^= data.draw(st.integers(1, 255), "change")
    path.write_bytes(broken)
    with pytest.raises(mm.ModelFileError, match=r"damaged|is not a maxmargin|format version"):
        resumed(kind, path)
    assert path.read_bytes() == broken


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "fit"
    X, y = rows()
    structural().fit(X, y).save(path)
    with pytest.raises(mm.ModelFileError, match="is not a maxmargin checkpoint file"):
        resumed("labels", path)
    path.write_bytes(content_of("labels"))
    with pytest.raises(mm.ModelFileError, match="is not a maxmargin model file"):
        mm.load(path)
    save_file({"w": np.zeros(3)}, path)
    with pytest.raises(mm.ModelFileError, match="is not a maxmargin checkpoint file"):
        resumed("labels", path)
    path.write_text("a note")
    with pytest.raises(mm.ModelFileError, match="damaged or not a checkpoint file"):
        resumed("labels", path)


def rewritten(path, change):
    """Rewrite a file with a valid checksum, as an attacker might."""
    with safe_open(str(path), framework="numpy") as stream:
        header = json.loads(stream.metadata()["header"])
        arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    change(header, arrays)
    write(path, header, arrays, CHECKPOINT)


HARM = {
    "blocks": lambda h, a: a.update(blocks=a["blocks"] + 1000),
    "below": lambda h, a: a.update(blocks=a["blocks"] - 1000),
    "negative": lambda h, a: a.update(multipliers=-a["multipliers"]),
    "infinite": lambda h, a: a.update(multipliers=a["multipliers"] * np.inf),
    "short": lambda h, a: a.update(multipliers=a["multipliers"][:-1]),
    "labels": lambda h, a: a.update(outputs=a["outputs"] + 100),
    "more labels": lambda h, a: a.update(outputs=np.append(a["outputs"], 0).astype(np.int32)),
    "fewer labels": lambda h, a: a.update(outputs=a["outputs"][:-1]),
    "real labels": lambda h, a: a.update(outputs=a["outputs"].astype(float)),
    "w": lambda h, a: a.update(w=a["w"][:-1]),
    "no w": lambda h, a: a.pop("w"),
    "k": lambda h, a: a.pop("own.k"),
    "endless k": lambda h, a: a.update({"own.k": np.array([np.inf])}),
    "calls": lambda h, a: h.update(oracle_calls=-1),
    "seconds": lambda h, a: h.update(seconds="many"),
    "identity": lambda h, a: h.update(identity=3),
    "point": lambda h, a: h.pop("point"),
    "kind": lambda h, a: h["point"].update(kind="marginals"),
    "other kind": lambda h, a: h["point"].update(kind="none"),
}


@pytest.mark.parametrize("name", HARM)
def test_a_forged_file_is_refused(name, tmp_path):
    path = tmp_path / "fit"
    path.write_bytes(content_of("labels"))
    rewritten(path, HARM[name])
    with pytest.raises(ValueError):
        resumed("labels", path)


PLANES = {
    "index": lambda a: a.update(index=a["index"] + 1000),
    "sizes": lambda a: a.update(sizes=a["sizes"] + 1),
    "negative sizes": lambda a: a.update(sizes=-a["sizes"]),
    "values": lambda a: a.update(value=a["value"][:-1]),
}


@pytest.mark.parametrize("name", PLANES)
def test_forged_planes_are_refused(name, tmp_path):
    path = tmp_path / "fit"
    path.write_bytes(content_of("own"))
    rewritten(path, lambda header, arrays: PLANES[name](arrays))
    with pytest.raises(mm.ModelFileError, match=r"is damaged: the (sizes of the planes|planes)"):
        resumed("own", path)


def test_forged_cuts_are_refused(tmp_path):
    path = tmp_path / "fit"
    path.write_bytes(content_of("cuts"))
    rewritten(path, lambda h, a: a.update({"own.sizes": a["own.sizes"] + 1}))
    with pytest.raises(ValueError, match="one plane for each cut"):
        resumed("cuts", path)


def test_a_disk_that_is_full_stops_nothing(tmp_path, monkeypatch):
    X, y = half_done(tmp_path / "fit")
    before = (tmp_path / "fit").read_bytes()

    def full(target, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("maxmargin.io.model_file.write_whole", full)
    asked = {"checkpoint_every": 1e-9, "resume": True}
    with pytest.warns(
        RuntimeWarning, match=r"cannot be written.*No space left.*the last one is kept"
    ):
        svm = structural().fit(X, y, checkpoint=tmp_path / "fit", **asked)
    assert svm.certificate_.converged and (tmp_path / "fit").read_bytes() == before
    with pytest.warns(RuntimeWarning, match=r"cannot be written.*; there is no checkpoint"):
        structural().fit(X, y, checkpoint=tmp_path / "other", **asked)
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert structural().fit(X, y, checkpoint=tmp_path / "fit", **asked).certificate_.converged


# Checksums.


def test_checksums_know_values_and_order_and_not_identity(tmp_path):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(6, 3)), ["a", "b"]
    same = "".join(["a"])
    pairs = [
        (labels, ["a", same + ""[:0], "b"][::2]),
        (X, X.copy(order="F")),
        (X[::2], X[::2].copy()),
        ({"b", "a", "c"}, {"c", "a", "b"}),
        ([X, X], [X, X.copy()]),
        (sp.csr_matrix(X), sp.csc_matrix(X)),
        (mm.models.Chain(), mm.models.Chain()),
        (np.array(["a", 1], object), np.array(["a", 1], object)),
    ]
    for one, other in pairs:
        assert digest_of(one) == digest_of(other)
    different = [X, X.T, X.astype(np.float32), X + 1e-300 * 0 + np.eye(6, 3), labels, ["b", "a"]]
    different += [
        ["ab"],
        [["a"], "b"],
        {"a": "b"},
        {"a", "b"},
        "ab",
        b"ab",
        1,
        1.0,
        True,
        None,
        "None",
    ]
    different += [
        sp.csr_matrix(X),
        mm.models.Chain(),
        mm.models.Chain(order=2),
        models.Multiclass(),
    ]
    digests = [digest_of(value) for value in different]
    assert len(set(digests)) == len(digests)
    mm.data.write_shards(tmp_path / "rows", X, np.arange(6) % 2)
    opened = [mm.data.open_shards(tmp_path / "rows") for _ in range(2)]
    assert digest_of(opened[0].X) == digest_of(opened[1].X)
    next(iter(opened[0].X))  # read one shard first
    assert digest_of(opened[0].X) == digest_of(opened[1].X)
    assert digest_of(opened[0].Y) == digest_of(opened[1].Y)


def test_what_has_no_checksum_says_so():
    endless: list = []
    endless.append(endless)
    with pytest.raises(TypeError, match="X contains itself"):
        digest_of(endless, "X")
    with pytest.raises(TypeError, match=r"X has no checksum: .*generator"):
        digest_of((k for k in ()), "X")


def test_the_header_is_plain_text(tmp_path):
    half_done(tmp_path / "fit")
    with safe_open(str(tmp_path / "fit"), framework="numpy") as stream:
        metadata = stream.metadata()
        arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    header = json.loads(metadata["header"])
    assert metadata["format"] == CHECKPOINT and metadata["version"] == "1"
    assert metadata["sha256"] == digest(arrays, metadata["header"])
    assert header["identity"]["C"] == 1.0 and header["oracle_calls"] > 0 and header["seconds"] > 0
