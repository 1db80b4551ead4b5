"""Copy the pages of the site to the folder that Sphinx reads: docs/, the README of the benchmarks,
and others.

    python tools/prepare_site.py build/site/source

A link to a file of the repository becomes a link to its page of the site, and `examples/x.py` in
the
text becomes a link to its page of the gallery. A link to a file without a page becomes plain text.
Examples
are copied to folders by difficulty, with a title. Unchanged files are not written again, because
Sphinx
rebuilds newer files.
"""

import re
import shutil
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]

# Examples by difficulty: for each level its title and a description, and the title of each example.
GALLERY = {
    "First steps": (
        "One estimator, a few lines.",
        {
            "digits_multiclass": "Classify digits",
            "demo_letters": "Read words, letter by letter and as a whole",
            "tagging_with_dicts": "Tag words that are described by dicts",
            "regression": "Regression and groups of constraints",
            "multilabel": "Sets of labels",
            "ranking": "Put documents in order",
        },
    ),
    "A whole task": (
        "From data to a model that was measured.",
        {
            "named_entities": "Named entities",
            "parsing": "Parse sentences",
            "landmarks": "Landmarks of faces",
            "grid_segmentation": "Labels on a grid",
            "segmenting_signals": "Cut a signal into segments",
            "imbalanced": "Few positives",
        },
    ),
    "Choosing": (
        "Which C, which solver, when to stop.",
        {
            "grid_search": "C by scikit-learn's grid search",
            "frames_and_trackers": "Tables of tokens, weights in a search, trackers",
            "choosing_c": "C along a path, and early stops",
            "choosing_a_solver": "The solvers side by side",
            "summed_error": "The maximum of violations, or their sum",
            "crf": "Hinge, softmax margin or log loss",
            "kernels": "Kernels, exact and with a basis",
        },
    ),
    "Further": (
        "Data on a disk, hidden parts, own models, a cluster.",
        {
            "own_model": "A model of your own",
            "out_of_core_tagger": "A tagger from data on a disk",
            "large_alphabet": "Two thousand labels",
            "parity_checks": "Factors over four nodes: an error-correcting code",
            "transfer": "Old weights as a prior",
            "latent_mixture": "Classes that are mixtures",
            "latent_states": "Labels with hidden states",
            "unknown_labels": "Sentences with some tags only",
            "detection": "Detection without boxes",
            "part_detection": "Part-based detection over an image pyramid",
            "cluster": "A cluster whose worker dies",
        },
    ),
}  # An example without a place comes last, under the name of its file.
for found in sorted((ROOT / "examples").glob("*.py")):
    if not any(found.stem in titles for _, titles in GALLERY.values()):
        GALLERY["Further"][1][found.stem] = found.stem.replace("_", " ").capitalize()

# Files outside docs/ that have a page.
PAGES = {
    "benchmarks/README.md": "measurements.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "reporting.md",
    "SUPPORT.md": "support.md",
}
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def folder_of(example: str) -> str:
    """Return the folder of an example in the gallery."""
    for number, (level, (_, titles)) in enumerate(GALLERY.items(), start=1):
        if example in titles:
            return f"{number}_{level.lower().replace(' ', '_')}"
    raise SystemExit(f"tools/prepare_site.py: GALLERY does not have examples/{example}.py")


def page_of(path: str) -> str | None:
    """Return the page of a file of the repository, relative to the top of the site."""
    if path.startswith("examples/") and path.endswith(".py"):
        name = PurePosixPath(path).stem
        number = f"{list(dict(order())).index(name):02d}_{name}"
        return f"gallery/{folder_of(name)}/{number}.rst"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return PAGES.get(path)


def order() -> list[tuple[str, str]]:
    """Return all examples with their titles, in the order of the gallery."""
    return [pair for _, titles in GALLERY.values() for pair in titles.items()]


def relative(target: str, page: str) -> str:
    """Return a link from one page to another."""
    up = "../" * (len(PurePosixPath(page).parts) - 1)
    return up + target


def rewritten(text: str, source: str, page: str) -> str:
    """Return the text of a file of the repository as a page of the site."""

    def link(match: re.Match[str]) -> str:
        words, target, anchor = match.groups()
        if re.match(r"\w+:", target):
            return match.group()
        where = (ROOT / source).parent.joinpath(target).resolve().relative_to(ROOT).as_posix()
        found = page_of(where) if target else page
        return (
            f"[{words}]({relative(found, page) if target else ''}{anchor or ''})"
            if found
            else words
        )

    def example(match: re.Match[str]) -> str:
        found = page_of(match.group(1))
        return f"[{match.group(1)}]({relative(found, page)})" if found else match.group()

    parts = FENCED.split(text)
    for k in range(0, len(parts), 2):
        parts[k] = re.sub(r"\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)", link, parts[k])
        parts[k] = re.sub(r"(?<!\[)`(examples/\w+\.py)`", example, parts[k])
    return "".join(parts)


def example_page(path: Path, title: str) -> str:
    """Return a script for the gallery: its docstring gets a title."""
    head, rest = path.read_text().split('"""', 1)
    words, code = rest.split('"""', 1)
    rule = "=" * len(title)
    words = words.replace("Run: python", "Run it::\n\n    python").strip()
    return f'{head}"""\n{title}\n{rule}\n\n{words}\n"""{code}'


def write(path: Path, text: str) -> None:
    """Write a file if its text has changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def copy_gallery(target: Path) -> None:
    """Copy the examples, and write the headings of their levels."""
    names = [name for name, _ in order()]
    write(
        target / "GALLERY_HEADER.rst",
        "Examples\n========\n\nFrom the first lines to the far corners.\n",
    )
    for number, (level, (says, titles)) in enumerate(GALLERY.items(), start=1):
        folder = target / f"{number}_{level.lower().replace(' ', '_')}"
        write(folder / "GALLERY_HEADER.rst", f"{level}\n{'-' * len(level)}\n\n{says}\n")
        for name, title in titles.items():
            text = example_page(ROOT / "examples" / f"{name}.py", title)
            write(folder / f"{names.index(name):02d}_{name}.py", text)


def main(target: Path) -> None:
    """Fill the folder with all pages."""
    copied = {f"docs/{path.relative_to(ROOT / 'docs')}": str(path.relative_to(ROOT / "docs"))
              for path in (ROOT / "docs").rglob("*.md")}  # fmt: skip
    outside = {name: page for name, page in PAGES.items() if name != "README.md"}
    for source, page in {**copied, **outside}.items():
        write(target / page, rewritten((ROOT / source).read_text(), source, page))
    for path in (ROOT / "docs").rglob("*"):
        if path.is_file() and path.suffix != ".md":
            to = target / path.relative_to(ROOT / "docs")
            to.parent.mkdir(parents=True, exist_ok=True)
            if not to.exists() or to.read_bytes() != path.read_bytes():
                shutil.copyfile(path, to)
    copy_gallery(target / "gallery_source")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
