"""The HTML report of an estimator: content, safety against hostile data, and look in a browser."""

import base64
import io
from html.parser import HTMLParser

import matplotlib.image
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import maxmargin as mm
from browser import Page, installed
from maxmargin import models
from maxmargin.cli import main
from maxmargin.data.trees import read_trees
from maxmargin.report.svg import Axis, chart, picture

MOST_BYTES = 500_000
SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(2)>'


class Elements(HTMLParser):
    """Collects the elements of a page with their attributes, and its text."""

    def __init__(self, path):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def named(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


def sections(path):
    text = path.read_text("utf-8")
    return [part.split("</h2>")[0] for part in text.split("<h2>")[1:]]


def written(svm, tmp_path, *data, **options):
    path = tmp_path / "page.html"
    svm.report(path, *data, **options)
    assert path.stat().st_size < MOST_BYTES
    return path


def rows(n=60, d=6, K=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, :K].argmax(axis=1)


def chains(n=20, seed=0):
    rng = np.random.default_rng(seed)
    Y = [rng.integers(3, size=4) for _ in range(n)]
    return [np.eye(3)[y] + rng.normal(size=(4, 3)) for y in Y], Y


SETS = [tuple(np.flatnonzero(x[:3] > 0).tolist()) for x in rows()[0]]
TREES = read_trees("(S (NP (D the) (N dog)) (V barks))\n(S (NP (N dogs)) (V bark))\n" * 3)
LEAVES = [tree.leaves() for tree in TREES]
NUMBERS = rows()[0][:, 0]
# Estimators of many kinds, data for training and scoring, and a section that the page must have.
KINDS = {
    "multiclass": (mm.MulticlassSVC(), rows(), "Confusion"),
    "binary": (mm.BinarySVC(), (rows()[0], rows()[1] == 1), "Weights by name"),
    "chain": (mm.StructuralSVM(models.Chain()), chains(), "Scores"),
    "sets": (mm.StructuralSVM(models.MultiLabel()), (rows()[0], SETS), "Scores"),
    "trees": (mm.StructuralSVM(models.Grammar()), (LEAVES, TREES), "Scores"),
    "numbers": (mm.RegressionSVR(), (rows()[0], NUMBERS), "Scores"),
    "kernel": (mm.StructuralSVM(models.Kernel(models.Multiclass())), rows(), "Confusion"),
    "latent": (mm.LatentSVM(models.Latent(models.Multiclass(), 2)), rows(), "Scores"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_estimator_has_a_page(kind, tmp_path):
    svm, (X, Y), section = KINDS[kind]
    svm = clone(svm).fit(X, Y)
    path = written(svm, tmp_path)
    assert sections(path)[:2] == ["Certificate", "Convergence"] and "Scores" not in sections(path)
    path = written(svm, tmp_path, X, Y)
    assert section in sections(path) and "Scores" in sections(path)
    text = Elements(path).text
    assert f"{svm.certificate_.primal:.4g}" in text and type(svm).__name__ in text


def test_all_sections(tmp_path):
    X, Y = chains(40)
    svm = mm.StructuralSVMCV(models.Chain(start=True), Cs=[0.01, 0.1], cv=2).fit(X, Y)
    svm.calibrate(*chains(30, 1))
    path = written(svm, tmp_path, *chains(30, 2), texts=[f"text {i}" for i in range(30)])
    wanted = ["Certificate", "Convergence", "Support planes", "Choice of C", "Scores", "Confusion",
              "Calibration", "Hardest examples", "Weights by name", "Weights between labels"]  # fmt: skip
    assert sections(path) == wanted
    assert "(start)" in Elements(path).text and "text " in Elements(path).text
    found = mm.regularization_path(svm.best_estimator_, X, Y, [0.1, 1], validation=(X, Y))
    assert "Choice of C" in sections(written(found.best, tmp_path, search=found))


def test_weights_are_shown_as_images(tmp_path):
    X, y = rows(d=6)
    svm = mm.MulticlassSVC().fit(X, y)
    images = Elements(written(svm, tmp_path, shape=(2, 3))).named("img")
    assert len(images) == 3
    largest = np.abs(svm.coef_).max()
    for own, image in zip(svm.coef_, images, strict=True):
        data = base64.b64decode(image["src"].split(",")[1])
        pixels = matplotlib.image.imread(io.BytesIO(data), "png")
        assert np.allclose(pixels[..., 3], np.abs(own).reshape(2, 3) / largest, atol=0.01)
        blue = pixels[..., 2] > pixels[..., 0]
        assert (blue == (own.reshape(2, 3) > 0))[pixels[..., 3] > 0].all()
    with pytest.raises(ValueError, match=r"shape must be .* of 6 features"):
        written(svm, tmp_path, shape=(2, 2))


def test_what_is_wrong_with_the_arguments_is_said(tmp_path):
    X, y = rows()
    svm = mm.MulticlassSVC().fit(X, y)
    with pytest.raises(ValueError, match="both X and Y"):
        svm.report(tmp_path / "p", X)
    with pytest.raises(ValueError, match="one text for each example"):
        svm.report(tmp_path / "p", X, y, texts=["a"])
    with pytest.raises(ValueError, match="k must be"):
        svm.report(tmp_path / "p", k=0)
    assert not (tmp_path / "p").exists()


# Hostile data have no effect on the page.


def hostile(folder):
    """Write a page whose labels, words, title and texts would run as code if they were not escaped."""
    labels = [SCRIPT, IMAGE, "a&b", "\ud800", "x" * 5000]
    X = [[{"word": w, SCRIPT: True}] * 2 for w in (SCRIPT, IMAGE, "</td>", "\0", "y" * 5000)]
    Y = [[label] * 2 for label in labels]
    svm = mm.StructuralSVM(models.Chain(), C=1.0).fit(X, Y)
    path = folder / "hostile.html"
    wrong = [*Y[1:], Y[0]]
    svm.report(path, X, wrong, title=SCRIPT, texts=[SCRIPT, IMAGE, "</table>", "", "z" * 5000])
    return path


def test_hostile_names_are_only_text(tmp_path):
    path = hostile(tmp_path)
    page = Elements(path)
    assert path.stat().st_size < MOST_BYTES
    assert len(page.named("script")) == 1 and not page.named("img")
    assert not [name for _, own in page.found for name in own if name.startswith("on")]
    assert SCRIPT in page.text and IMAGE in page.text
    assert "x" * 300 not in page.text and "y" * 300 not in page.text


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_many_labels_and_long_texts_stay_small(tmp_path):
    rng = np.random.default_rng(0)
    Y = np.split(rng.permutation(np.arange(1500) % 400), 30)
    names = np.array([f"{i}-" + "w" * 300 for i in range(400)])
    X = [[{"word": "v" * 200 + str(label)} for label in y] for y in Y]
    Y = [names[y].tolist() for y in Y]
    svm = mm.StructuralSVM(models.Chain(), C=1e-3, tol=0.5).fit(X, Y)
    path = written(svm, tmp_path, X, [*Y[1:], Y[0]], texts=["t" * 9999] * 30, k=10)
    assert "30 of 400 labels" in Elements(path).text


# Charts.


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.booleans())
def test_ticks_are_round_and_inside(low, width, log):
    low = abs(low) + 1e-3 if log else low
    axis = Axis.of("x", [low, low + width], (0, 100), log)
    ticks = axis.ticks()
    assert ticks == sorted(set(ticks)) and len(ticks) <= 20
    assert all(-1 <= place <= 101 for place in axis.place(ticks))
    assert len(ticks) >= 2 or log


def test_charts_leave_out_what_cannot_be_drawn():
    assert chart({"a": ([], [])}, ("x", "y")) == ""
    assert chart({"a": ([1, 2], [np.inf, np.nan])}, ("x", "y")) == ""
    drawn = chart({"a<b": ([0, 1, 2, 3], [1, 0.1, -1, np.inf])}, ("x", "y"), (True, True))
    assert drawn.count("<circle") == 1 and "a&lt;b" in drawn and "nan" not in drawn
    assert picture(np.zeros((2, 2)), 0.0).startswith("data:image/png")


# Files and the command line.


def test_history_is_in_the_model_file(tmp_path):
    X, y = rows(200)
    svm = mm.MulticlassSVC(tol=1e-6).fit(X, y)
    svm.save(tmp_path / "m")
    known = mm.load(tmp_path / "m").history_
    assert list(known) == list(svm.history_) and len(known["gap"]) <= 100
    assert all(known[name][-1] == svm.history_[name][-1] for name in known)
    assert "Convergence" in sections(written(mm.load(tmp_path / "m"), tmp_path))


def test_the_command(tmp_path, capsys):
    (tmp_path / "t.conll").write_text("the B-NP\ndog I-NP\nbarks O\n\nshe B-NP\nsits O\n\n" * 5)
    (tmp_path / "new.conll").write_text("sits B-NP\ndog O\n\n")
    model, page = str(tmp_path / "m"), str(tmp_path / "page.html")
    assert main(["train", str(tmp_path / "t.conll"), model]) == 0
    assert main(["report", model, "--output", page]) == 0
    assert "Scores" not in sections(tmp_path / "page.html")
    new = str(tmp_path / "new.conll")
    assert main(["report", model, new, "--output", page, "--title", SCRIPT]) == 0
    assert "Hardest examples" in sections(tmp_path / "page.html")
    assert "sits dog" in Elements(tmp_path / "page.html").text
    assert main(["report", model, new, "--output", page, "--shape", "2", "2"]) == 1
    assert "shape must be" in capsys.readouterr().err


def test_reliability_counts_nodes_by_their_probability():
    X, Y = chains(50)
    svm = mm.StructuralSVM(models.Chain()).fit(X, Y).calibrate(*chains(30, 1))
    table = svm.reliability(X, Y, bins=5)
    p = np.concatenate(svm.predict_proba(X))
    right = p.argmax(axis=1) == np.concatenate(Y)
    for name, count, said, hits in zip(table.rows, *(table[c] for c in table.columns), strict=True):
        low, high = map(float, name.split("-"))
        own = (p.max(axis=1) >= low) & (p.max(axis=1) < high)
        assert count == own.sum() > 0
        assert said == pytest.approx(p.max(axis=1)[own].mean())
        assert hits == pytest.approx(right[own].mean())
    assert table["nodes"].sum() == 200


# In a browser.


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if installed() is None:
        pytest.skip("no browser is installed: python tools/install_browser.py")
    page = Page(tmp_path_factory.mktemp("browser"))
    yield page
    page.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    svm = mm.StructuralSVMCV(models.Chain(start=True), Cs=[0.01, 0.1], cv=2).fit(*chains(40))
    svm.calibrate(*chains(30, 1)).report(folder / "chain.html", *chains(30, 2))
    X, y = rows()
    mm.MulticlassSVC().fit(X, y).report(folder / "rows.html", X, y, shape=(2, 3))
    return [folder / "chain.html", folder / "rows.html", hostile(folder)]


WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


def test_pages_show_without_complaints(browser, pages):
    for path in pages:
        for width, scheme in ((1000, "light"), (380, "dark")):
            browser.show(path, width, scheme=scheme)
            browser.value("document.querySelectorAll('details').forEach(d => d.open = true)")
            assert browser.complaints() == []
            assert not browser.value(WIDE), (path, width)
            assert not browser.value("[...document.images].some(i => !i.naturalWidth)")
            assert browser.value("[...document.querySelectorAll('svg')].every("
                                 "s => s.getBoundingClientRect().height > 100)")  # fmt: skip
    assert browser.value("document.title").startswith("<script>")


def test_a_click_sorts_a_table(browser, pages):
    browser.show(pages[0])
    cells = "tBodies[0].rows].map(r => r.cells[{}].textContent)"
    table = ("[...document.querySelectorAll('h2')].find(h => h.textContent === '{}')"
             ".parentElement.querySelector('{}')")  # fmt: skip

    def texts(number):
        place = table.format("Hardest examples", "table")
        return browser.value(f"[...{place}." + cells.format(number))

    def click(number):
        place = table.format("Hardest examples", f"th:nth-child({number + 1}) button")
        browser.value(f"{place}.click()")

    margins = [float(text) for text in texts(1)]
    assert len(margins) > 2 and margins == sorted(margins, reverse=True)
    click(0)
    numbers = [int(text) for text in texts(0)]
    assert numbers == sorted(numbers, reverse=True)
    click(0)
    assert [int(text) for text in texts(0)] == sorted(numbers)
    assert [float(text) for text in texts(1)] != margins
    click(3)
    assert texts(3) == sorted(texts(3))
    assert browser.complaints() == []


def brightness(colour):
    return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(","))) / 3


def test_colours_follow_the_scheme(browser, pages):
    found = {}
    for scheme in ("light", "dark"):
        browser.show(pages[0], scheme=scheme)
        for part in ("backgroundColor", "color"):
            colour = browser.value(f"getComputedStyle(document.body).{part}")
            found[scheme, part] = brightness(colour)
    assert found["light", "backgroundColor"] - found["light", "color"] > 150
    assert found["dark", "color"] - found["dark", "backgroundColor"] > 150
