"""Docs are contracts that run: code blocks, tables, links, and the formulas of the objective."""

import dataclasses
import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.svm import LinearSVC

import maxmargin as mm
from maxmargin import losses, models, solvers
from maxmargin.problem import Status
from maxmargin.result import COLUMNS
from maxmargin.solvers.gdmm import FORMS
from reference.dense_qp import dual_objective, primal_objective
from reference.multivariate import labelling_block
from reference.problems import binary_case, chain_case, fresh, multiclass_case

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from write_compatibility import page  # noqa: E402

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# A block of code, and what it prints where a block of text follows at once.
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
# A block that needs one of these is left out where it is not installed.
OPTIONAL = {"mlflow", "polars", "rich", "sklearn.callback", "tensorboardX", "tqdm"}
WITH_CODE = [path for path in PAGES if BLOCK.search(path.read_text())]


def read(name):
    return (ROOT / name).read_text()


def name_of(path):
    return path.relative_to(ROOT).as_posix().removesuffix(".md")


def pages_of_models():
    return "".join(path.read_text() for path in sorted((ROOT / "docs/models").glob("*.md")))


def rows(text, head):
    """Cells of the table whose first header cell is `head`."""
    table = re.search(rf"^\| {re.escape(head)} \|.*\n\|[-| ]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table, f"no table {head!r}"
    lines = table.group(1).replace(r"\|", "¦").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


# Pages


@pytest.mark.parametrize("path", WITH_CODE, ids=name_of)
@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_python_blocks_run(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    namespace = {"__name__": "docs"}
    for block in BLOCK.finditer(path.read_text()):
        line = path.read_text()[: block.start()].count("\n") + 2
        code = compile("\n" * (line - 1) + block.group(1), str(path), "exec")
        try:
            exec(code, namespace)
        except ImportError as error:
            if error.name not in OPTIONAL:
                raise
            continue
        printed = capsys.readouterr().out
        if block.group(2) is not None:
            assert_printed(block.group(2), printed)


def number(token):
    try:
        return float(token.strip(",;()"))
    except ValueError:
        return None


def assert_printed(expected, printed):
    """The same words, and numbers that are nearly the same; "..." stands for the rest of a line."""
    assert len(expected.splitlines()) == len(printed.splitlines()), printed
    for wanted, line in zip(expected.splitlines(), printed.splitlines(), strict=True):
        tokens, found = wanted.split(), line.split()
        if "..." in tokens:
            tokens = tokens[: tokens.index("...")]
            found = found[: len(tokens)]
        assert len(tokens) == len(found), line
        for token, other in zip(tokens, found, strict=True):
            value = number(token)
            if value is None:
                assert token == other, line
            else:
                assert number(other) == pytest.approx(value, rel=0.05, abs=0.02), line


def test_printed_text_is_compared():
    assert_printed("F1 0.84 of\nC 3, ...\n", "F1 0.85 of\nC 3, and more\n")
    for other in ("F1 0.94 of\nC 3,", "F1 0.84 in\nC 3,", "F1 0.84 of\n"):
        with pytest.raises(AssertionError):
            assert_printed("F1 0.84 of\nC 3, ...\n", other)


def test_the_quickstart_is_short():
    first = BLOCK.search(read("README.md")).group(1)
    assert len(first.splitlines()) <= 15


def anchors(path):
    """Names of the headings of a page, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    heads = [head.lower() for head in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", head).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if target.startswith("http"):
            continue
        file, _, anchor = target.partition("#")
        page = path.parent / file if file else path
        assert page.exists(), target
        if anchor:
            assert anchor in anchors(page), target


def test_every_page_is_reached_from_the_readme():
    for path in (ROOT / "docs").glob("*.md"):
        assert f"docs/{path.name}" in read("README.md")
    for path in (ROOT / "docs/models").glob("*.md"):
        assert f"(models/{path.name})" in read("docs/models.md")


def test_every_public_name_is_documented():
    text = "".join(path.read_text() for path in PAGES)
    for name in {*mm.__all__, *solvers.SOLVERS, *solvers.__all__}:
        assert re.search(rf"\b{re.escape(name)}\b", text), name


# Tables


def test_compatibility_page_is_generated():
    advice = "run: python tools/write_compatibility.py"
    assert read("docs/compatibility.md") == page(), advice


@pytest.mark.parametrize("kind", solvers.SOLVERS.values(), ids=lambda kind: kind.name)
def test_options_of_a_solver_are_those_of_the_code(kind):
    text, owner = read("docs/solvers.md"), f"`solvers.{kind.__name__}`"
    heads = re.findall(r"^\| (option of [^|]+) \|", text, re.MULTILINE)
    head = next(head for head in heads if owner in head)
    found = {names(cells[0])[0]: names(cells[1])[0] for cells in rows(text, head)}
    fields = dataclasses.fields(kind)
    assert found == {field.name: repr(field.default).replace("'", '"') for field in fields}


def test_forms_of_gdmm_have_the_options_of_the_table():
    found = rows(read("docs/solvers.md"), "option of `solvers.Gdmm`")
    for form in FORMS:
        listed = [names(cells[0])[0] for cells in found if form.examples in cells[2].split(", ")]
        assert set(listed) == {"printed", *(field.name for field in dataclasses.fields(form))}


def test_every_solver_is_in_the_tables():
    for page_name in ("README.md", "docs/solvers.md"):
        listed = [names(cells[0])[0].strip('"') for cells in rows(read(page_name), "name")]
        assert listed == ["auto", *solvers.SOLVERS]


MODELS = [getattr(models, name) for name in models.__all__ if name != "Model"]
MODELS = [kind for kind in MODELS if inspect.signature(kind).parameters]  # Ranking has none


@pytest.mark.parametrize("kind", MODELS)
def test_parameters_of_a_model_are_those_of_the_code(kind):
    head = f"parameter of `models.{kind.__name__}`"
    pages = pages_of_models() + read("docs/own_models.md")
    found = [
        [name for cell in cells[:2] for name in names(cell)[:1]] for cells in rows(pages, head)
    ]
    parameters = list(inspect.signature(kind).parameters.values())
    required = inspect.Parameter.empty
    defaults = [
        [repr(p.default).replace("'", '"')] * (p.default is not required) for p in parameters
    ]
    assert found == [[p.name, *default] for p, default in zip(parameters, defaults, strict=True)]


def test_every_loss_is_in_the_pages_of_models():
    text = pages_of_models()
    for name in losses.SAMPLE_LOSSES:
        assert f"losses.{name}" in text, name


def test_certificate_page_names_every_field_status_and_column():
    text = read("docs/certificate.md")
    fields = [name for cells in rows(text, "field") for name in names(cells[0])]
    assert fields == [field.name for field in dataclasses.fields(mm.Certificate)]
    assert [names(cells[0])[0] for cells in rows(text, "status")] == [s.value for s in Status]
    assert [names(cells[0])[0] for cells in rows(text, "key")] == list(COLUMNS)


# Formulas of docs/objective.md, on small random problems with all outputs enumerated


@pytest.fixture(params=["multiclass", "binary", "chain"])
def case(request, seed):
    if request.param == "binary":
        return binary_case(fresh(seed, 44), costs=True, weighted=True, C=0.7)
    if request.param == "multiclass":
        return multiclass_case(fresh(seed, 40), costs=True, weighted=True, C=0.7)
    return chain_case(fresh(seed, 41), lengths=(1, 3, 2), costs=True, weighted=True, C=0.7)


@dataclasses.dataclass
class Point:
    """A feasible a and what belongs to it."""

    multipliers: list
    q: np.ndarray

    @classmethod
    def draw(cls, case, generator):
        shares = [generator.dirichlet(np.ones(len(block.offsets))) for block in case.blocks]
        a = [c * share for c, share in zip(case.budgets, shares, strict=True)]
        q = -sum(x @ block.vectors for x, block in zip(a, case.blocks, strict=True))
        return cls(a, q)

    def shares_of_the_gap(self, case, w):
        """g_i of every block, and the masses."""
        g = []
        for a, block, mass in zip(self.multipliers, case.blocks, case.budgets, strict=True):
            s = block.offsets + block.vectors @ w
            g.append(s.max() - (a @ s / mass if mass > 0 else 0.0))
        return np.array(g)


def gap_of(case, point, w):
    """P(w) - D(a) by definition, in NumPy."""
    slacks = [(block.offsets + block.vectors @ w).max() for block in case.blocks]
    primal = 0.5 * w @ w + case.budgets @ np.array(slacks)
    losses = sum(a @ block.offsets for a, block in zip(point.multipliers, case.blocks, strict=True))
    return primal - (losses - 0.5 * point.q @ point.q)


def package_problem(case):
    """The same problem in the package."""
    kinds = {"multiclass": models.Multiclass, "binary": models.Binary, "chain": models.Chain}
    model = kinds[case.kind](loss=case.options["costs"])
    model.initialize(case.X, case.Y)
    return model, mm.Problem(model.bind(case.X, case.Y), case.C, case.sample_weight)


def test_primal_is_the_definition(case, generator):
    model, problem = package_problem(case)
    w = generator.normal(size=problem.dimension)
    slacks = np.array([(b.offsets + b.vectors @ w).max() for b in case.blocks])
    by_hand = 0.5 * w @ w + case.budgets @ slacks
    assert problem.slacks(w) == pytest.approx(slacks, rel=1e-12, abs=1e-12)
    assert (slacks >= 0).all()
    for value in (
        problem.objective(w),
        primal_objective(case.blocks, case.budgets, w),
        mm.objective(model, w, case.X, case.Y, case.C, case.sample_weight),
    ):
        assert value == pytest.approx(by_hand, rel=1e-12)


def test_slack_is_no_less_than_the_loss_of_the_prediction(case, generator):
    model, problem = package_problem(case)
    w = generator.normal(size=problem.dimension)
    predicted = problem.examples.predict(w, 1)
    losses = [model.loss(y, y_hat) for y, y_hat in zip(case.Y, predicted, strict=True)]
    assert (problem.slacks(w) >= np.array(losses) - 1e-12).all()


def test_every_dual_is_below_every_primal(case, generator):
    for _ in range(20):
        point = Point.draw(case, generator)
        w = generator.normal(size=len(point.q)) * generator.exponential()
        assert gap_of(case, point, w) >= 0


@pytest.mark.parametrize("k", [0.0, 0.3, 5.0])
def test_gap_identity_with_a_proximal_term(case, generator, k):
    point = Point.draw(case, generator)
    z = generator.normal(size=len(point.q))
    w = (point.q + k * z) / (1 + k)
    g = point.shares_of_the_gap(case, w)
    assert (g >= -1e-12).all()
    identity = case.budgets @ g + 0.5 * k**2 * (w - z) @ (w - z)
    assert gap_of(case, point, w) == pytest.approx(identity, rel=1e-10)


def test_gap_identity_for_any_w(case, generator):
    point = Point.draw(case, generator)
    w = generator.normal(size=len(point.q))
    identity = case.budgets @ point.shares_of_the_gap(case, w) + 0.5 * np.sum((w - point.q) ** 2)
    assert gap_of(case, point, w) == pytest.approx(identity, rel=1e-10)


def test_primal_and_dual_meet_at_w_equal_q(case):
    best = case.optimum
    assert best.primal == pytest.approx(best.dual, rel=1e-9)
    vectors = [block.vectors for block in case.blocks]
    q = -sum(a @ psi for a, psi in zip(best.multipliers, vectors, strict=True))
    np.testing.assert_allclose(best.w, q, atol=1e-5 * np.abs(q).max())


def test_certificate_is_in_units_of_the_loss(case):
    model, _ = package_problem(case)
    svm = mm.StructuralSVM(model, C=case.C, tol=1e-4).fit(case.X, case.Y, case.sample_weight)
    bounds = svm.certificate_
    assert bounds.gap == pytest.approx(
        (bounds.primal - bounds.dual) / case.budgets.sum(), abs=1e-12
    )
    assert bounds.dual <= case.optimum.primal and case.optimum.dual <= bounds.primal
    twice = np.array([(b.offsets + b.vectors @ svm.coef_).max() for b in case.blocks])
    assert bounds.primal == pytest.approx(
        0.5 * svm.coef_ @ svm.coef_ + case.budgets @ twice, rel=1e-8
    )


# The conversion table of docs/objective.md


@pytest.fixture
def plain(seed):
    """A multiclass problem without weights: its blocks, their number and a random w."""
    case = multiclass_case(fresh(seed, 42), n=9, C=1.0)
    return case, len(case.Y), fresh(seed, 43).normal(size=case.truth.size_joint_feature)


def slacks_of(case, w, features=1.0, losses=1.0):
    blocks = case.blocks
    return np.array([(losses * b.offsets + features * b.vectors @ w).max() for b in blocks])


def ours(case, w, C):
    model, _ = package_problem(case)
    return mm.objective(model, w, case.X, case.Y, C=C)


@pytest.mark.parametrize("lam", [1.0, 0.01])
def test_lambda_form(plain, lam):
    case, n, w = plain
    C = 1 / (lam * n)
    theirs = lam / 2 * w @ w + slacks_of(case, w).mean()
    assert theirs == pytest.approx(lam * ours(case, w, C), rel=1e-12)
    # Their epsilon is our tol: lambda (P - D) = (P - D) / (C n).
    point = Point.draw(case.replace(C=C), np.random.default_rng(0))
    gap = gap_of(case.replace(C=C), point, w)
    assert lam * gap == pytest.approx(gap / (C * n), rel=1e-12)


def test_svm_struct_form(plain):
    case, n, w = plain
    theirs = 0.5 * w @ w + 5.0 / n * slacks_of(case, w).sum()
    assert theirs == pytest.approx(ours(case, w, C=5.0 / n), rel=1e-12)


def test_dual_coordinate_form(plain):
    case, _, w = plain
    assert 0.5 * w @ w + slacks_of(case, w).sum() == pytest.approx(ours(case, w, C=1), rel=1e-12)
    folded = 0.5 * w @ w + slacks_of(case, w, features=3.0, losses=3.0).sum()
    assert folded == pytest.approx(ours(case, w, C=3.0), rel=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_liblinear_has_the_same_c(plain, intercept):
    case, _, _ = plain
    peer = LinearSVC(
        multi_class="crammer_singer", C=0.4, fit_intercept=intercept, tol=1e-9, max_iter=100_000
    ).fit(case.X, case.Y)
    svm = mm.MulticlassSVC(C=0.4, fit_intercept=intercept, tol=1e-9).fit(case.X, case.Y)
    if len(svm.classes_) > 2:
        np.testing.assert_allclose(svm.coef_, peer.coef_, atol=1e-4)
        np.testing.assert_allclose(svm.intercept_, peer.intercept_, atol=1e-4)
    parts = [peer.coef_, np.reshape(peer.intercept_, (-1, 1))] if intercept else [peer.coef_]
    primal = mm.objective(svm, np.hstack(parts), case.X, case.Y)
    assert primal == pytest.approx(svm.certificate_.primal, rel=1e-6)


def test_liblinear_hinge_has_the_same_c(generator):
    X, y, w = generator.normal(size=(9, 3)), np.arange(9) % 2, generator.normal(size=3)
    theirs = 0.5 * w @ w + 0.3 * np.maximum(0, 1 - (2 * y - 1) * (X @ w)).sum()
    svm = mm.StructuralSVM(models.Binary(), C=0.3).fit(X, y)
    assert mm.objective(svm, w, X, y) == pytest.approx(theirs, rel=1e-12)


def test_multivariate_form(generator):
    n, X, y = 7, generator.normal(size=(7, 3)), np.arange(7) % 2
    v, block = generator.normal(size=3), labelling_block("f1", X, y)
    # psi of the reference is 1/n sum over changed labels; their Psi = sum_i y_i x_i is 2 n times ours.
    theirs = 0.5 * v @ v + 0.3 * np.max(block.offsets + 2 * n * block.vectors @ v)
    model = models.Binary("f1")
    model.initialize(X, y)
    ours = mm.objective(model, 2 * n * v, X, y, C=4 * n**2 * 0.3)
    assert theirs == pytest.approx(ours / (4 * n**2), rel=1e-12)


def test_pair_step_is_exact_and_gains_what_the_page_says(case, generator):
    point = Point.draw(case, generator)
    i = int(np.argmax(case.budgets))
    block, a = case.blocks[i], point.multipliers[i]
    s = block.offsets + block.vectors @ point.q
    u = int(s.argmax())
    v = int(np.argmin(s))
    difference = block.vectors[u] - block.vectors[v]

    def dual_after(t):
        moved = [x.copy() for x in point.multipliers]
        moved[i][u] += t
        moved[i][v] -= t
        return dual_objective(case.blocks, moved)

    t = min(a[v], (s[u] - s[v]) / (difference @ difference))
    gain = t * (s[u] - s[v]) - t**2 / 2 * difference @ difference
    assert dual_after(t) - dual_after(0.0) == pytest.approx(gain, rel=1e-9, abs=1e-12)
    assert dual_after(t) >= max(dual_after(0.9 * t), dual_after(min(1.1 * t, a[v]))) - 1e-12
