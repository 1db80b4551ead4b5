"""The documentation is tested: code blocks, tables and links."""

import dataclasses
import inspect
import re
import sys
from pathlib import Path

import pytest

import maxmargin as mm
from maxmargin import losses, models, solvers
from maxmargin.problem import Status
from maxmargin.result import COLUMNS
from maxmargin.solvers.gdmm import FORMS

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from write_compatibility import page  # noqa: E402

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# A block of code, with its output if a block of text follows directly.
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
# A block is skipped if it needs one of these packages and the package is missing.
OPTIONAL = {"mlflow", "polars", "rich", "sklearn.callback", "tensorboardX", "tqdm"}
WITH_CODE = [path for path in PAGES if BLOCK.search(path.read_text())]


def read(name):
    return (ROOT / name).read_text()


def name_of(path):
    return path.relative_to(ROOT).as_posix().removesuffix(".md")


def pages_of_models():
    return "".join(path.read_text() for path in sorted((ROOT / "docs/models").glob("*.md")))


def rows(text, head):
    """Return the cells of the table whose first header cell is `head`."""
    table = re.search(rf"^\| {re.escape(head)} \|.*\n\|[-| ]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table, f"no table {head!r}"
    lines = table.group(1).replace(r"\|", "¦").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


# Pages.


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
    """Assert equal words and nearly equal numbers; "..." stands for the rest of a line."""
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
    """Return the anchors of the headings of a page, as GitHub and the site form them."""
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


# Tables.


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


MODELS = [getattr(models, name) for name in models.__all__ if name not in ("Model", "Transitions")]
# Ranking has no parameters
MODELS = [kind for kind in MODELS if inspect.signature(kind).parameters]


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
