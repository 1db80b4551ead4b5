"""Parquet as a source of a cluster: row groups are parts, column names are feature names."""

import json
import os

import numpy as np
import pytest

import maxmargin as mm
from loopback import agree
from maxmargin import cluster, models
from maxmargin.callbacks import Callback
from maxmargin.cli import main, train
from maxmargin.cluster import pool, source
from maxmargin.data import file_parquet
from maxmargin.data.read_file import read_encoded as read_all
from maxmargin.data.read_file import read_file
from reference.python_chain import PythonMulticlass

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


LABEL = file_parquet.Columns("label")
TOL = 1e-3  # in units of the loss; tests with data in memory show that a cluster reaches 1e-6


def structural(model):
    return mm.StructuralSVM(model, C=0.1, tol=TOL, max_passes=1e4, random_state=0)


def columns(n, seed, first=0):
    """Columns of several kinds: numbers, texts that differ between files, missing values, and labels."""
    rng = np.random.default_rng([seed, first])
    y = rng.integers(0, 3, n)
    x = rng.normal(size=(n, 2)) + np.eye(3)[y, :2]
    return {
        "size": np.where(rng.random(n) < 0.1, None, x[:, 0]).tolist(),
        "label": [["no", "yes", "perhaps"][k] for k in y],
        "count": rng.integers(0, 3, n).tolist(),
        "word": [f"w{rng.integers(3) + first}" for _ in range(n)],
        "flag": (rng.random(n) < 0.5).tolist(),
        "width": x[:, 1].astype(np.float32).tolist(),
    }


def write(path, seed, n=40, first=0, rows=10):
    parquet.write_table(arrow.table(columns(n, seed, first)), path, row_group_size=rows)


@pytest.fixture
def folder(tmp_path, seed):
    (tmp_path / "tables").mkdir()
    for k in range(3):
        write(tmp_path / "tables" / f"{k}.parquet", seed, first=k)
    return tmp_path / "tables"


def all_of(folder):
    """Return what one process reads with the reader of the command line."""
    read = [read_file(str(path), label="label") for path in sorted(folder.glob("*.parquet"))]
    return [row for own in read for row in own.X], np.concatenate([own.Y for own in read])


def test_parquet_has_the_optimum_of_one_process(client, folder):
    X, y = all_of(folder)
    alone = structural(models.Multiclass(bias=1.0)).fit(X, y)
    paths = sorted(folder.glob("*.parquet"))
    for where, n_parts in ((folder, None), (folder, 5), (paths, None), (str(paths[0]), 4)):
        svm = structural(models.Multiclass(bias=1.0))
        cluster.fit(svm, where, client, n_parts, label="label", collect=True)
        if where == str(paths[0]):  # a single file is divided by its row groups
            assert svm.certificate_.converged
            continue
        agree(svm.certificate_, alone.certificate_)
        assert set(svm.model_.feature_names_) == set(alone.model_.feature_names_)
        assert "word=w4" in svm.model_.feature_names_.tolist()
        assert mm.certify(svm, X, y).gap <= 2 * TOL
        assert svm.score(X, y) == pytest.approx(
            alone.score(X, y), abs=0.05
        )  # the rows that one process reads


def test_flat_estimators_and_models_in_python(client, folder):
    X, y = all_of(folder)
    settings = {"tol": TOL, "C": 0.3, "class_weight": "balanced"}
    alone = mm.MulticlassSVC(**settings).fit(X, y)
    svm = cluster.fit(mm.MulticlassSVC(**settings), folder, client, label="label")
    agree(svm.certificate_, alone.certificate_)
    assert svm.score(X, y) > 0.4  # guessing gives a third
    own, places = Sizes(1 - np.eye(3)), {"no": 0, "yes": 1, "perhaps": 2}
    alone = structural(own).fit(X, [places[label] for label in y.tolist()])
    svm = cluster.fit(structural(Sizes(1 - np.eye(3))), folder, client, label="label")
    agree(svm.certificate_, alone.certificate_)


class Sizes(PythonMulticlass):
    """A model whose inputs are dicts, as read from the file, and whose labels are texts."""

    places = ("no", "yes", "perhaps")

    def code(self, y):
        return self.places.index(str(y)) if isinstance(y, str) else int(y)

    def row(self, x):
        return np.array([x.get("size", 0.0), x["width"], x["count"], 1.0])

    def initialize(self, X, Y):
        super().initialize([self.row(x) for x in X], [self.code(y) for y in Y])

    def joint_feature(self, x, y):
        return super().joint_feature(self.row(x), self.code(y))

    def loss(self, y, y_hat):
        return super().loss(self.code(y), self.code(y_hat))

    def inference(self, x, w):
        return super().inference(self.row(x), w)

    def loss_augmented_inference(self, x, y, w):
        return super().loss_augmented_inference(self.row(x), self.code(y), w)


def test_batches_grow_names_and_checksums_know_the_bytes(folder, monkeypatch, seed):
    groups = [g for path in sorted(folder.iterdir()) for g in file_parquet.groups_of(str(path))]
    assert len(groups) == 12
    whole, y, _ = file_parquet.encoded(groups, LABEL, None)
    monkeypatch.setattr(file_parquet, "ROWS_AT_ONCE", 3)
    small, y_small, _ = file_parquet.encoded(groups, LABEL, None)
    assert len(small.parts) > len(whole.parts) and y.tolist() == y_small.tolist()
    assert (whole.tocsr() != small.tocsr()).nnz == 0
    names = whole.encoder.get_feature_names_out().tolist()
    assert names == small.encoder.get_feature_names_out().tolist()
    X, _ = all_of(folder)
    row = whole.tocsr()[7].toarray().ravel()
    for name, value in X[7].items():
        at = names.index(f"{name}={value}" if isinstance(value, str) else name)
        assert row[at] == (1.0 if isinstance(value, str) else value)
    # The columns of a given model are kept; other columns are ignored.
    known = file_parquet.encoded(groups[:4], LABEL, None)[0]
    again = file_parquet.encoded(groups[4:], LABEL, known.encoder)[0]
    assert again.encoder.same_columns(known.encoder)
    first = file_parquet.checksum_of(groups[:4])
    write(folder / "1.parquet", seed + 1)
    assert file_parquet.checksum_of(groups[:4]) == first
    write(folder / "0.parquet", seed + 1)
    assert file_parquet.checksum_of(groups[:4]) != first


def test_refusals(client, folder, tmp_path):
    svm = structural(models.Multiclass())
    with pytest.raises(ValueError, match=r"n_parts is 13, but .* 12 row groups"):
        cluster.fit(svm, folder, client, 13, label="label")
    with pytest.raises(ValueError, match="each path of the list is one part"):
        cluster.fit(svm, sorted(folder.iterdir()), client, 2, label="label")
    with pytest.raises(cluster.PartError, match=r"part 0 .*no column 'grade'; there are size"):
        cluster.fit(svm, folder, client, label="grade")
    with pytest.raises(ValueError, match="label names a column"):
        cluster.fit(svm, [([[1.0], [2.0]], [0, 1])], client, label="label")
    mm.data.write_shards(tmp_path / "rows", np.eye(4), np.arange(4) % 2)
    with pytest.raises(ValueError, match="label names a column"):
        cluster.fit(svm, tmp_path / "rows", client, label="label")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="manifest"):
        cluster.fit(svm, tmp_path / "empty", client)
    parquet.write_table(arrow.table({"x": [], "label": []}), tmp_path / "none.parquet")
    with pytest.raises(ValueError, match="no rows"):
        cluster.fit(svm, tmp_path / "none.parquet", client)
    (tmp_path / "text.parquet").write_bytes(b"PAR1, it says")
    with pytest.raises(ValueError, match=r"text\.parquet"):
        cluster.fit(svm, tmp_path / "text.parquet", client)
    path = folder / "1.parquet"
    content = bytearray(path.read_bytes())
    content[4:40] = bytes(36)  # within the first pages of the file
    path.write_bytes(content)
    with pytest.raises(cluster.PartError, match=r"part \d .*\.parquet"):
        cluster.fit(svm, folder, client, label="label")
    assert not hasattr(svm, "coef_")


def test_files_that_change_while_training_runs_are_refused(client, folder, seed):
    """A second reader of a part must find the same rows, since the bounds belong to them."""
    parts = source.parts_of(folder, 2, 2, LABEL)
    sealed = source.first_look(structural(models.Multiclass()), parts[0]).part
    X, y, _ = source.read_part(structural(models.Multiclass()), sealed)
    assert X.shape[0] == len(y) == 60
    write(folder / "0.parquet", seed + 5)
    with pytest.raises(ValueError, match="changed after training began"):
        source.read_part(structural(models.Multiclass()), sealed)


def test_a_checkpoint_knows_parquet_by_its_content(client, folder, tmp_path, seed):
    asked = {"label": "label", "checkpoint": tmp_path / "fit", "resume": True}

    class Stop(Callback):
        def on_step(self, info):
            return info.step == 3

    with pytest.warns(UserWarning, match="not converged"):
        cluster.fit(structural(models.Multiclass()), folder, client, 3, callbacks=[Stop()], **asked)
    folder = folder.rename(tmp_path / "elsewhere")
    svm = cluster.fit(structural(models.Multiclass()), folder, client, 3, **asked)
    agree(svm.certificate_, structural(models.Multiclass()).fit(*all_of(folder)).certificate_)
    write(folder / "2.parquet", seed + 1, first=2)
    with pytest.raises(ValueError, match="checksums of the parts"):
        cluster.fit(structural(models.Multiclass()), folder, client, 3, **asked)


# Weights and sequences.


def sentences(n, seed):
    """Sequences of one to four words with weights; labels depend on the word and on the previous label."""
    rng = np.random.default_rng([seed, 7])
    table = {"name": [], "word": [], "weight": [], "height": [], "tag": []}
    for i in range(n):
        weight, before = float(rng.integers(1, 4)), 0
        for _ in range(int(rng.integers(1, 5))):
            before = int(rng.integers(3)) if rng.random() < 0.7 else before
            word = f"w{before}{rng.integers(2)}" if rng.random() < 0.8 else "w"
            row = (f"s{i}", word, weight, float(rng.normal() + before), "abc"[before])
            for column, cell in zip(table.values(), row, strict=True):
                column.append(cell)
    return table


def grouped(table):
    """Return X, Y and weights by sequence, as one process has them."""
    X, Y, weights, names = [], [], [], table["name"]
    for i, name in enumerate(names):
        if i == 0 or name != names[i - 1]:
            X.append([]), Y.append([]), weights.append(table["weight"][i])
        X[-1].append({"word": table["word"][i], "height": table["height"][i]})
        Y[-1].append(table["tag"][i])
    return X, Y, np.array(weights)


def write_groups(path, table, ends):
    """Write row groups that end at the given rows."""
    whole = arrow.table(table)
    with parquet.ParquetWriter(path, whole.schema) as writer:
        for a, b in zip([0, *ends], [*ends, whole.num_rows], strict=True):
            writer.write_table(whole.slice(a, b - a))


def last_of(table, parts):
    """Return evenly spaced rows at which a sequence ends."""
    names = table["name"]
    ends = [i for i in range(1, len(names)) if names[i] != names[i - 1]]
    return [ends[len(ends) * k // parts] for k in range(1, parts)]


def test_sequences_and_weights_have_the_optimum_of_one_process(client, tmp_path, seed):
    table = sentences(30, seed)
    X, Y, weights = grouped(table)
    path, columns = tmp_path / "t.parquet", {"sequence": "name", "weight": "weight"}
    write_groups(path, table, last_of(table, 4))
    alone = structural(models.Chain()).fit(X, Y, sample_weight=weights)
    unweighted = structural(models.Chain()).fit(X, Y)
    assert alone.certificate_.primal > 1.2 * unweighted.certificate_.primal  # the weights matter
    for n_parts in (2, 4):
        svm = cluster.fit(structural(models.Chain()), path, client, n_parts, **columns)
        agree(svm.certificate_, alone.certificate_)
        assert svm.predict(X[:1])[0].shape == (len(Y[0]),)
        assert set(svm.model_.feature_names_) == set(alone.model_.feature_names_)


def test_weights_of_rows(client, folder, tmp_path, seed):
    X, y = all_of(folder)
    counts = [row.pop("count") for row in X]
    alone = structural(models.Multiclass(bias=1.0)).fit(X, y, sample_weight=counts)
    svm = structural(models.Multiclass(bias=1.0))
    cluster.fit(svm, folder, client, label="label", weight="count")
    agree(svm.certificate_, alone.certificate_)
    assert "count" not in svm.model_.feature_names_.tolist()


def test_refusals_of_sequences_and_weights(tmp_path, seed):
    table, path = sentences(12, seed), tmp_path / "t.parquet"
    columns = file_parquet.Columns("tag", "weight", "name")
    write_groups(path, table, last_of(table, 3))
    X, Y, weights = file_parquet.plain_rows(file_parquet.groups_of(str(path)), columns)
    given = grouped(table)
    assert given[0] == X and [y.tolist() for y in Y] == given[1]
    assert weights.tolist() == given[2].tolist()
    known = source.parts_of(path, 2, 2, columns)[0]
    other = source.parts_of(path, 2, 2, file_parquet.Columns("tag", "", "name"))[0]
    assert known.digest() != other.digest()

    def refuses(match, changed, ends=(), columns=columns, part=0):
        write_groups(path, changed, ends)
        with pytest.raises(ValueError, match=match):
            source.read_part(None, source.parts_of(path, len(ends) + 1, 1, columns)[part])

    inside = next(i for i in range(1, 40) if table["name"][i] == table["name"][i - 1])
    refuses(r"'s\d+' lies in row groups 0 and 1", table, [inside], part=1)
    uneven = [9.0 if i == inside else v for i, v in enumerate(table["weight"])]
    refuses("rows with different weights", {**table, "weight": uneven})
    gap = [None if i == 4 else v for i, v in enumerate(table["weight"])]
    refuses(r"row 5: column 'weight' is missing", {**table, "weight": gap})
    refuses("column 'word' must hold numbers", table, columns=file_parquet.Columns("tag", "word"))
    refuses(
        "no column 'page'; there are name", table, columns=file_parquet.Columns("tag", "", "page")
    )
    with pytest.raises(ValueError, match="sequence names a column"):
        source.parts_of([([[1.0]], [0])], None, 1, file_parquet.Columns("", "", "name"))


def test_files_are_visible_where_every_worker_has_them(client, folder, tmp_path):
    assert pool.visible(client, str(folder)) and pool.visible(client, str(folder / "0.parquet"))
    assert not pool.visible(client, str(tmp_path / "nowhere"))

    class Losing:
        """A client whose first worker answers and whose second worker is lost."""

        def run(self, task, path, on_error):
            assert on_error == "return"
            return {"a": task(path), "b": OSError("closed")}

    assert not pool.visible(Losing(), str(folder))


def test_the_command_line_lets_workers_read_what_they_see(
    client, folder, tmp_path, capsys, monkeypatch
):
    """Workers read a folder, or a file with enough row groups; other files are sent to them."""
    X, y = all_of(folder)
    alone = mm.MulticlassSVC(tol=TOL, random_state=0).fit(X, y)
    whole = []
    monkeypatch.setattr(train, "read_encoded", lambda source: whole.append(1) or read_all(source))

    def trained(path, *more):
        model = tmp_path / "model"
        command = ["train", str(path), str(model), "--label", "label", "--json", "--tol", str(TOL)]
        assert main([*command, "--scheduler", client.scheduler.address, *more]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["converged"] and found["solver"] == "cluster" and found["format"] == "parquet"
        return mm.load(model), found

    svm, found = trained(folder)
    assert not whole and found["examples"] == len(y) and found["task"] == "multiclass"
    agree(svm.certificate_, alone.certificate_)
    assert (svm.predict(X) == alone.predict(X)).mean() > 0.9
    model = str(tmp_path / "model")
    # the model knows the names of the columns
    assert main(["evaluate", model, str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == pytest.approx(svm.score(X, y))
    # A file with too few row groups is sent, and so is a file that differs on a worker.
    _, found = trained(folder / "0.parquet", "--parts", "5")
    assert len(whole) == 1 and found["examples"] == 40
    here = os.getpid()
    monkeypatch.setattr(pool, "files_at", lambda path: [(path, int(os.getpid() == here))])
    trained(folder)
    assert len(whole) == 2
