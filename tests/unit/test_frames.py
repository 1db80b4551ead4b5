"""Tables and columns of pandas, polars and pyarrow, as X, y, weights and sequences; ``set_output``."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline

import maxmargin as mm
from maxmargin import models
from maxmargin.data import AttributeEncoder

RNG = np.random.default_rng(0)
A = RNG.normal(size=(60, 3))
LABELS = np.where(A[:, 0] > 0, "yes", "no")
NAMES = ["a", "b", "c"]
TABLES = ["pandas", "polars", "pyarrow"]
FLAT = [mm.MulticlassSVC, mm.BinarySVC, mm.MulticlassLogistic]


def table(package, columns):
    """Return a table of this package, from columns by name."""
    if package == "pandas":
        return pd.DataFrame(columns, index=np.arange(len(next(iter(columns.values()))))[::-1])
    if package == "pyarrow":
        return pa.table(columns)
    return pytest.importorskip("polars").DataFrame(columns)


def numbers(package, **more):
    return table(package, {name: A[:, j] for j, name in enumerate(NAMES)} | more)


def columns_of_labels():
    """Yield the labels as every kind of column."""
    backwards = np.arange(60)[::-1]
    yield "series", lambda: pd.Series(LABELS, index=backwards)
    yield "categories", lambda: pd.Series(LABELS, index=backwards, dtype="category")
    yield "strings", lambda: pd.Series(LABELS, index=backwards, dtype="string")
    yield "arrow", lambda: pa.array(LABELS)
    yield "arrow dictionary", lambda: pa.array(LABELS).dictionary_encode()
    yield "arrow chunks", lambda: pa.chunked_array([LABELS[:20], LABELS[20:]])
    yield "polars", lambda: pytest.importorskip("polars").Series(LABELS)
    yield "polars categories", lambda: polars_column("Categorical")


def polars_column(kind):
    polars = pytest.importorskip("polars")
    return polars.Series(LABELS, dtype=getattr(polars, kind))


@pytest.mark.parametrize("package", TABLES)
@pytest.mark.parametrize("kind", [*FLAT, mm.RegressionSVR])
def test_tables_are_their_numbers(package, kind):
    y = A[:, 0] if kind is mm.RegressionSVR else LABELS
    X = numbers(package)
    plain, svm = kind(random_state=0).fit(A, y), kind(random_state=0).fit(X, y)
    assert np.array_equal(svm.coef_, plain.coef_)
    assert svm.feature_names_in_.tolist() == NAMES
    assert np.array_equal(svm.predict(X), plain.predict(A))
    with pytest.raises(ValueError, match="feature names should match"):
        svm.predict(table(package, {"z": A[:, 0], "b": A[:, 1], "c": A[:, 2]}))


@pytest.mark.parametrize(("name", "column"), [*columns_of_labels()])
@pytest.mark.parametrize("kind", [*FLAT, lambda **k: mm.StructuralSVM(models.Multiclass(), **k)])
def test_columns_are_their_labels(name, column, kind):
    y, plain = column(), kind(random_state=0).fit(A, LABELS)
    svm = kind(random_state=0).fit(A, y)
    assert svm.classes_.tolist() == ["no", "yes"]
    assert np.array_equal(svm.coef_, plain.coef_) and svm.score(A, y) == plain.score(A, LABELS)


@pytest.mark.parametrize("package", TABLES)
def test_weights_may_be_columns(package):
    weights = RNG.uniform(0.5, 2.0, size=60)
    column = table(package, {"w": weights})["w"]
    plain = mm.MulticlassSVC(random_state=0).fit(A, LABELS, sample_weight=weights)
    svm = mm.MulticlassSVC(random_state=0).fit(numbers(package), LABELS, sample_weight=column)
    assert np.array_equal(svm.coef_, plain.coef_)


@pytest.mark.parametrize("package", TABLES)
@pytest.mark.parametrize("kind", FLAT)
def test_errors_name_the_column(package, kind):
    words = ["u", "v"] * 30
    with pytest.raises(ValueError, match=r"X: column 'd', row 0: 'u' is not a number"):
        kind().fit(numbers(package, d=words), LABELS)
    holes = [None if i == 7 else float(i) for i in range(60)]
    with pytest.raises(ValueError, match=r"X: column 'd', row 7: a value is missing"):
        kind().fit(numbers(package, d=holes), LABELS)
    endless = [np.inf if i == 9 else float(i) for i in range(60)]
    with pytest.raises(ValueError, match=r"X: column 'd', row 9: inf is not finite"):
        kind().fit(numbers(package, d=endless), LABELS)


def test_an_error_of_y_is_not_blamed_on_a_column():
    with pytest.raises(ValueError, match="y"):
        mm.MulticlassSVC().fit(numbers("pandas"), pd.Series(LABELS).where(A[:, 1] < 1))


@pytest.mark.parametrize("package", TABLES)
def test_sequences_may_be_tables(package):
    words, shapes = ["the", "cat", "sat", "on"], [0.5, 1.0, None, 2.0]
    x = table(package, {"word": words, "shape": shapes})
    if package == "pandas":
        y = pd.Series(["D", "N", "V", "P"], index=[3, 2, 1, 0])
    else:
        y = table(package, {"y": ["D", "N", "V", "P"]})["y"]
    dicts = [{"word": word, "shape": shape} for word, shape in zip(words, shapes, strict=True)]
    plain = mm.StructuralSVM(models.Chain(), random_state=0).fit([dicts] * 3, [list("DNVP")] * 3)
    svm = mm.StructuralSVM(models.Chain(), random_state=0).fit([x] * 3, [y] * 3)
    assert svm.feature_names_.tolist() == plain.feature_names_.tolist()
    assert np.array_equal(svm.coef_, plain.coef_)
    assert svm.score([x], [y]) == 1.0


@pytest.mark.parametrize("package", TABLES)
def test_sets_of_labels_may_be_tables(package):
    Y = (A > 0).astype(int)
    svm = mm.StructuralSVM(models.MultiLabel(), random_state=0)
    plain = svm.fit(A, Y).coef_
    given = table(package, {name: Y[:, j] for j, name in enumerate("pqr")})
    assert np.array_equal(svm.fit(numbers(package), given).coef_, plain)


@pytest.mark.parametrize("package", TABLES)
def test_chunks_may_be_tables(package):
    svm = mm.MulticlassSVC(solver=mm.solvers.Streaming(passes=None), random_state=0)
    plain = svm.fit([(A[:30], LABELS[:30]), (A[30:], LABELS[30:])]).coef_
    X, y = numbers(package), table(package, {"y": LABELS})["y"]
    if package == "pandas":
        chunks = [(X.iloc[:30], y.iloc[:30]), (X.iloc[30:], y.iloc[30:])]
    else:
        chunks = [(X[:30], y[:30]), (X[30:], y[30:])]
    assert np.array_equal(svm.fit(chunks).coef_, plain)


# set_output.

NODES = [{"word": "cat", "n": 0.5}, {"word": "dog"}, {"tall": True}]
COLUMNS = ["word=cat", "n", "word=dog", "tall"]


def test_attributes_as_a_frame_of_pandas():
    encoder = AttributeEncoder().set_output(transform="pandas")
    frame = encoder.fit_transform(NODES)
    assert list(frame.columns) == COLUMNS
    assert all(isinstance(kind, pd.SparseDtype) for kind in frame.dtypes)
    dense = AttributeEncoder().fit_transform(NODES).toarray()
    assert np.array_equal(frame.to_numpy(), dense)
    assert encoder.transform([{"word": "dog", "n": 2}]).to_numpy().tolist() == [[0, 2, 1, 0]]
    with config_context(transform_output="pandas"):
        assert list(AttributeEncoder().fit_transform(NODES).columns) == COLUMNS
        # the setting does not apply to an encoder inside an estimator
        svm = mm.MulticlassSVC().fit(NODES, [0, 1, 1])
    assert svm.feature_names_.tolist() == COLUMNS


def test_attributes_as_a_frame_of_polars():
    pytest.importorskip("polars")
    frame = AttributeEncoder().set_output(transform="polars").fit_transform(NODES)
    assert frame.columns == COLUMNS and frame["n"].to_list() == [0.5, 0.0, 0.0]


def test_names_come_through_a_pipeline():
    pipeline = make_pipeline(AttributeEncoder(), mm.MulticlassSVC()).set_output(transform="pandas")
    pipeline.fit(NODES, ["x", "y", "y"])
    assert pipeline[-1].feature_names_in_.tolist() == COLUMNS


def test_columns_of_a_frame_in_a_column_transformer():
    frame = pd.DataFrame({"text": ["cat", "dog", "cat"], "n": [1.0, 2.0, 3.0]})
    columns = make_column_transformer(
        (AttributeEncoder(sequences=False), ["text"]), ("passthrough", ["n"])
    )
    columns.set_output(transform="pandas")
    names = ["attributeencoder__text=cat", "attributeencoder__text=dog", "passthrough__n"]
    assert list(columns.fit_transform(frame).columns) == names


def test_sequences_are_no_table():
    with pytest.raises(ValueError, match="sequences cannot become a table"):
        AttributeEncoder().set_output(transform="pandas").fit_transform([[NODES[0]], NODES[1:]])
