"""The site and releases: gallery and API are complete, pictures match the tables, versions agree."""

import importlib
import re
import sys
import zipfile
from pathlib import Path

import pytest

import maxmargin

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import build_wheels  # noqa: E402
import check_site  # noqa: E402
import check_version  # noqa: E402
import draw_figures  # noqa: E402
import install_package  # noqa: E402
import prepare_site  # noqa: E402


def names_of_the_api():
    """Return the pairs (module, name) of the API page."""
    text = (ROOT / "docs/api.md").read_text()
    blocks = re.findall(r"currentmodule:: (\S+)\n.*?:toctree: api\n\n(.*?)```", text, re.DOTALL)
    return {(module, name) for module, names in blocks for name in names.split()}


@pytest.mark.parametrize(
    "module", ["", ".models", ".losses", ".solvers", ".metrics", ".data", ".callbacks"]
)
def test_api_lists_every_public_name(module):
    module = importlib.import_module(f"maxmargin{module}")
    public = {name for name in module.__all__ if callable(getattr(module, name))}
    assert {(module.__name__, name) for name in public} <= names_of_the_api()


def test_names_of_the_api_exist():
    for module, name in names_of_the_api():
        assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


def test_gallery_has_every_example(tmp_path):
    prepare_site.main(tmp_path)
    pages = {path.stem[3:] for path in (tmp_path / "gallery_source").rglob("*.py")}
    assert pages == {path.stem for path in (ROOT / "examples").glob("*.py")}
    for path in (tmp_path / "gallery_source").rglob("*.py"):
        compile(path.read_text(), str(path), "exec")
    assert (tmp_path / "measurements.md").exists() and (tmp_path / "models/chain.md").exists()


def test_links_lead_to_pages_of_the_site():
    text = (
        "[a](../benchmarks/README.md#the-race), [b](models/chain.md), `examples/kernels.py`, "
        "[c](../cpp/simd.hpp)"
    )
    page = prepare_site.rewritten(text, "docs/choosing.md", "choosing.md")
    assert "[a](measurements.md#the-race), [b](models/chain.md)" in page
    assert re.search(r"\[examples/kernels.py\]\(gallery/3_choosing/\d\d_kernels.rst\)", page)
    assert page.endswith(", c")
    deeper = prepare_site.rewritten("[m](../metrics.md)", "docs/models/chain.md", "models/chain.md")
    assert deeper == "[m](../metrics.md)"
    fenced = "```sh\n[a](../nowhere.md)\n```"
    assert prepare_site.rewritten(fenced, "docs/choosing.md", "choosing.md") == fenced


def test_pictures_show_the_figures_of_the_tables():
    drawn = {
        "measured_tagger.svg": draw_figures.command_line_bars(),
        "measured_footprint.svg": [
            bar for k in (3, 4, 5) for bar in draw_figures.footprint_bars(k)
        ],
        "measured_labels.svg": draw_figures.many_labels_bars(),
    }
    for name, bars in drawn.items():
        picture = (ROOT / "docs/figures" / name).read_text()
        assert bars
        for _, value, _ in bars:
            assert f"  {value:,g} " in picture, f"{name} is old: run python tools/draw_figures.py"


def test_all_places_name_the_same_version():
    assert set(check_version.versions().values()) == {maxmargin.__version__}


def test_broken_links_are_found(tmp_path):
    (tmp_path / "index.html").write_text(
        '<a href="other.html#here">x</a><a href="other.html#gone">x</a><a href="none.html">x</a>'
        '<script src="https://example.org/x.js"></script><a href="https://example.org">x</a>'
    )
    (tmp_path / "other.html").write_text('<p id="here">')
    found = check_site.wrong(tmp_path)
    assert [line.split(": ")[1].split(",")[0] for line in found] == [
        "other.html#gone",
        "none.html",
        "loads https://example.org/x.js",
    ]


def test_steps_of_the_compiler_are_told():
    lines = [
        "  [3/49] Building CXX object CMakeFiles/_core_v3.dir/units/chain.cpp.o\n",
        "  [4/49] Building CXX object CMakeFiles/nanobind-static.dir/root/x/nanobind/src/nb_func.cpp.o\n",
        "noise\n",
        "[48/49] Linking CXX shared module _core_v3.so\n",
    ]
    reported = list(install_package.steps(lines))
    assert reported == [(3, 49, "units/chain.cpp"), (48, 49, "linking")]


def test_every_page_is_in_the_navigation():
    listed = {"index"}
    for path in (ROOT / "docs").rglob("*.md"):
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", path.read_text(), re.M | re.S):
            listed |= {line for line in block.splitlines() if line and not line.startswith(":")}
    pages = {
        p.relative_to(ROOT / "docs").with_suffix("").as_posix()
        for p in (ROOT / "docs").rglob("*.md")
    }
    outside = {Path(page).stem for page in prepare_site.PAGES.values()} | {"gallery/index"}
    assert listed == pages | outside


def test_wheels_are_tried_with_the_quickstart(tmp_path):
    assert "StructuralSVM" in build_wheels.quickstart()
    compile(build_wheels.quickstart(), "README.md", "exec")
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        for level in ("v3", "baseline"):
            wheel.writestr(f"maxmargin/_core_{level}.cpython-311-x86_64-linux-gnu.so", "")
    assert build_wheels.core_levels(tmp_path / "a.whl") == ["baseline", "v3"]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("maxmargin-1/cpp/simd.hpp", True),
        ("maxmargin-1/src/maxmargin/data/labels.py", True),
        ("maxmargin-1/build/site/html/index.html", False),
        ("maxmargin-1/data/usps/zip.train.gz", False),
        ("maxmargin-1/src/maxmargin/_core_v3.so", False),
    ],
)
def test_what_was_built_or_is_data_is_not_in_an_sdist(name, kept):
    assert (build_wheels.NOT_IN_SDIST.search(name) is None) == kept
