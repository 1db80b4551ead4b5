"""Model files restore what was saved, and damaged files are refused."""

import json
import struct

import numpy as np
import pytest

import maxmargin as mm
from helpers import refusal
from maxmargin import losses, models
from maxmargin.io import model_file
from reference.python_chain import PythonChain

DAMAGE = (ValueError, OSError)


@pytest.fixture(scope="module")
def chain(seed):
    """Return a fitted chain and its inputs."""
    generator = np.random.default_rng(seed)
    X = [generator.normal(size=(3, 2)) for _ in range(5)]
    Y = [["a", "b", "c"], ["b", "a", "c"], ["c", "c", "b"], ["a", "a", "a"], ["b", "c", "a"]]
    return mm.StructuralSVM(models.Chain(start=True, bias=1.0), tol=1e-4).fit(X, Y), X


@pytest.fixture
def saved(chain, tmp_path):
    """Return a fitted chain, its inputs and its file."""
    svm, X = chain
    path = tmp_path / "chain.safetensors"
    svm.save(path)
    return svm, X, path


def header_of(data):
    """Return the header as an object, and the offset of the tensors, of a safetensors file."""
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + size]), 8 + size


def with_header(header, data, offset):
    """Return the file with another header and the same tensors."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[offset:]


def test_file_is_safetensors_and_holds_no_pickle(saved):
    _, _, path = saved
    data = path.read_bytes()
    header, offset = header_of(data)
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    assert all({"dtype", "shape", "data_offsets"} <= set(entry) for entry in tensors.values())
    assert max(entry["data_offsets"][1] for entry in tensors.values()) == len(data) - offset
    assert b"\x80\x04\x95" not in data  # the first bytes of a pickle


@pytest.mark.parametrize(
    "labels",
    [["x", "y"], [3, 7], [True, False], [2.5, -1.0], ["ä", "日本"]],
    ids=["strings", "integers", "booleans", "floats", "unicode"],
)
def test_labels_survive_with_their_types(generator, tmp_path, labels):
    X = [generator.normal(size=(2, 2)) for _ in range(4)]
    Y = [[labels[0], labels[1]], [labels[1], labels[0]], [labels[0]] * 2, [labels[1]] * 2]
    svm = mm.StructuralSVM(models.Chain(), tol=1e-3).fit(X, Y)
    svm.save(tmp_path / "labels")
    loaded = mm.load(tmp_path / "labels")
    assert list(loaded.classes_) == list(svm.classes_)
    left, right = loaded.predict(X), svm.predict(X)
    assert [list(y) for y in left] == [list(y) for y in right]
    assert {type(t) for y in left for t in y} == {type(t) for y in right for t in y}


def test_labels_that_a_file_cannot_hold_are_refused(generator, tmp_path):
    X = [generator.normal(size=(2, 2)) for _ in range(2)]
    svm = mm.StructuralSVM(models.Chain(), tol=1e-3)
    svm.fit(X, [[("a", 1), ("b", 2)], [("b", 2), ("a", 1)]])
    with refusal("labels"):
        svm.save(tmp_path / "tuples")
    assert not (tmp_path / "tuples").exists()


def test_attribute_names_survive(tmp_path):
    X = [[{"a": 1.0, "b": 0.5}, {"b": 2.0}], [{"c": 1.0}]]
    svm = mm.StructuralSVM(models.Chain(), tol=1e-6).fit(X, [["x", "y"], ["y"]])
    svm.save(tmp_path / "names")
    loaded = mm.load(tmp_path / "names")
    fresh = [[{"c": 1.0, "new": 1.0}, {"a": 1.0}]]
    assert [list(y) for y in loaded.predict(fresh)] == [list(y) for y in svm.predict(fresh)]


def test_losses_survive(generator, tmp_path):
    X, y = generator.normal(size=(9, 2)), [0, 1, 2] * 3
    costs = np.array([[0, 1, 4], [1, 0, 1], [4, 1, 0.0]])
    svm = mm.StructuralSVM(models.Multiclass(loss=costs, bias=1.0), tol=1e-6).fit(X, y)
    svm.save(tmp_path / "flat")
    assert mm.load(tmp_path / "flat").loss(X, y) == svm.loss(X, y)
    X = [generator.normal(size=(2, 2)) for _ in range(6)]
    Y = [["a", "b"], ["b", "a"], ["a", "a"]] * 2
    loss = losses.Hamming(costs={"a": 2.0, "b": 5.0}, mean=True)
    svm = mm.StructuralSVM(models.Chain(loss=loss), tol=1e-6).fit(X, Y)
    svm.save(tmp_path / "chain")
    assert mm.load(tmp_path / "chain").loss(X, Y) == svm.loss(X, Y)


@pytest.mark.parametrize(
    "loss",
    [
        "zero-one",
        [2.0, 5.0],
        "f1",
        "roc-area",
        losses.F1(beta=2.0),
        losses.PrecisionAt(3),
        losses.RecallAt(0.5),
    ],
    ids=str,
)
def test_binary_models_and_their_losses_survive(generator, tmp_path, loss):
    X, y = generator.normal(size=(12, 2)), np.array(["no", "yes", "no"] * 4)
    svm = mm.StructuralSVM(models.Binary(loss, bias=1.0), C=10.0).fit(X, y)
    svc = mm.BinarySVC(loss=loss, C=10.0).fit(X, y)
    for estimator in (svm, svc):
        estimator.save(tmp_path / "binary")
        loaded = mm.load(tmp_path / "binary")
        assert loaded.coef_.tobytes() == estimator.coef_.tobytes()
        assert (loaded.predict(X) == estimator.predict(X)).all()
        assert loaded.model_.joint == svm.model_.joint
    assert loaded.intercept_.tobytes() == svc.intercept_.tobytes()
    assert loaded.decision_function(X).tobytes() == svc.decision_function(X).tobytes()
    svm.save(tmp_path / "binary")
    assert mm.load(tmp_path / "binary").loss(X, y) == svm.loss(X, y)


@pytest.mark.parametrize("change", [{"loss": {"kind": "F9"}}, {"classes": ["a", "b", "c"]}])
def test_a_binary_model_that_none_could_have_written_is_refused(generator, tmp_path, change):
    X, y = generator.normal(size=(12, 2)), [0, 1, 1] * 4
    path = tmp_path / "binary"
    mm.BinarySVC(loss="f1").fit(X, y).save(path)
    header, arrays = model_file.read(path)
    header["model"].update(change)
    model_file.write(path, header, arrays)
    with refusal("damaged", kinds=(mm.ModelFileError,)):
        mm.load(path)


def test_saving_replaces_the_file_as_a_whole(saved):
    svm, _, path = saved
    path.write_bytes(b"something else")
    svm.save(path)
    assert mm.load(path).coef_.tobytes() == svm.coef_.tobytes()
    assert [p.name for p in path.parent.iterdir()] == [path.name]  # no temporary file is left


def test_saving_into_a_missing_folder_leaves_nothing(saved, tmp_path):
    svm, _, _ = saved
    with pytest.raises(OSError):
        svm.save(tmp_path / "missing" / "model")
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("keep", [0, 5, 8, 60, -1, -9])
def test_truncated_file_is_refused(saved, keep):
    _, _, path = saved
    path.write_bytes(path.read_bytes()[:keep])
    with refusal("chain.safetensors", kinds=DAMAGE):
        mm.load(path)


def test_file_with_a_tail_is_refused(saved):
    _, _, path = saved
    path.write_bytes(path.read_bytes() + b"tail")
    with refusal("chain.safetensors", kinds=DAMAGE):
        mm.load(path)


@pytest.mark.parametrize(
    "content", [b"hello", b"\xff" * 200, b"{}" * 50, b"\x80\x04\x95" + b"0" * 90]
)
def test_another_kind_of_file_is_refused(tmp_path, content):
    path = tmp_path / "strange"
    path.write_bytes(content)
    with refusal("strange", kinds=DAMAGE):
        mm.load(path)


def test_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        mm.load(tmp_path / "nowhere")


def test_safetensors_of_another_program_is_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"weight": np.zeros(3)}, tmp_path / "other")
    with refusal("other", kinds=DAMAGE):
        mm.load(tmp_path / "other")


def metadata_changes(metadata):
    """Yield every metadata entry: removed, emptied, and replaced by nonsense."""
    for key in metadata:
        yield f"without {key}", {name: v for name, v in metadata.items() if name != key}
        yield f"empty {key}", dict(metadata, **{key: ""})
        yield f"nonsense {key}", dict(metadata, **{key: '{"model": "os.system"}'})


def test_tampered_metadata_is_refused(saved):
    _, _, path = saved
    data = path.read_bytes()
    header, offset = header_of(data)
    for what, metadata in metadata_changes(header["__metadata__"]):
        path.write_bytes(with_header(dict(header, __metadata__=metadata), data, offset))
        try:
            mm.load(path)
        except DAMAGE as error:
            assert "chain.safetensors" in str(error), what
        else:
            pytest.fail(f"accepted a file {what}")


def test_tensor_of_a_wrong_size_is_refused(saved):
    _, _, path = saved
    data = path.read_bytes()
    header, offset = header_of(data)
    name = max(
        (name for name in header if name != "__metadata__"),
        key=lambda name: np.prod(header[name]["shape"]),
    )
    begin, end = header[name]["data_offsets"]
    count = int(np.prod(header[name]["shape"]))
    width = (end - begin) // count
    assert end == len(data) - offset or len(header) > 2
    shorter = dict(header)
    shorter[name] = dict(header[name], shape=[count - 1], data_offsets=[begin, end - width])
    path.write_bytes(with_header(shorter, data, offset)[: -width or None])
    with refusal("chain.safetensors", kinds=DAMAGE):
        mm.load(path)


def test_flipped_bits_of_the_header_never_do_harm(saved, generator):
    # A damaged file is refused, or its model still predicts only its own labels.
    _, X, path = saved
    data = bytearray(path.read_bytes())
    _, offset = header_of(bytes(data))
    for position in generator.integers(0, offset, size=60):
        damaged = bytearray(data)
        damaged[position] ^= 1 << int(generator.integers(8))
        path.write_bytes(bytes(damaged))
        try:
            loaded = mm.load(path)
            predicted = loaded.predict(X)
        except DAMAGE:
            continue
        assert {t for y in predicted for t in y} <= set(loaded.classes_)


def test_a_python_model_is_not_saved_and_says_why(generator, tmp_path):
    X = [generator.normal(size=(2, 2)) for _ in range(3)]
    svm = mm.StructuralSVM(PythonChain(2), tol=1e-3).fit(X, [[0, 1], [1, 0], [1, 1]])
    with refusal("PythonChain", kinds=(TypeError, ValueError, NotImplementedError)):
        svm.save(tmp_path / "python")
    assert not (tmp_path / "python").exists()
