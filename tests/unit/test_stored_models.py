"""Model files of version 0.1.0 load, and their predictions have not changed by a bit.

``tests/stored`` holds files written by that version, at least one for each kind of model.
``predicted.json`` holds the inputs, the weights in hexadecimal digits and the predictions.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import maxmargin as mm

STORED = Path(__file__).parents[1] / "stored"
KNOWN = json.loads((STORED / "predicted.json").read_text())


def path_graph(x):
    """Return a sequence as a graph: a path of nodes."""
    ends = np.arange(len(x))
    return x, np.column_stack([ends[:-1], ends[1:]]), None


def inputs_of(kind):
    if kind == "bags":
        rows = np.array(KNOWN["rows"])
        return [rows[i : i + 4] for i in range(0, len(rows), 4)]
    if kind == "graphs":
        return [path_graph(np.array(x)) for x in KNOWN["sequences"]]
    found = KNOWN[kind]
    return found if kind in ("attributes", "sentences") else [np.array(x) for x in found]


def plain(output):
    """Return an output in the form of the JSON file; trees in brackets."""
    return str(output) if hasattr(output, "leaves") else np.asarray(output).tolist()


def test_every_stored_file_is_looked_at():
    assert {file.stem for file in STORED.glob("*.model")} == set(KNOWN["files"])


@pytest.mark.parametrize("name", KNOWN["files"])
def test_a_stored_model_predicts_the_same_bits(name):
    wanted = KNOWN["files"][name]
    svm = mm.load(STORED / f"{name}.model")
    assert [w.hex() for w in np.ravel(svm.coef_).tolist()] == wanted["coef"]
    X = inputs_of(wanted["kind"])
    X = np.array(X) if wanted["kind"] == "rows" else X
    assert [plain(y) for y in svm.predict(X)] == wanted["predicted"]


@pytest.mark.parametrize("name", KNOWN["files"])
def test_a_stored_model_is_written_again_with_the_same_weights(name, tmp_path):
    svm = mm.load(STORED / f"{name}.model")
    svm.save(tmp_path / "again")
    assert np.array_equal(mm.load(tmp_path / "again").coef_, svm.coef_)
