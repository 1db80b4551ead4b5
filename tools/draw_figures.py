"""Draw the pictures of the site into docs/figures: python tools/draw_figures.py [NAME ...]

Bars show tables of the benchmarks' pages, and a test compares both. Curves show fits that this tool
runs.
"""

import re
import sys
import warnings
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from sklearn.base import clone

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures"
OURS, OTHERS, INK = "#1f6feb", "#b9b9b9", "#333333"
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "maxmargin", "font.size": 11})


def table(head: str, page: str = "README.md") -> list[list[str]]:
    """Return the rows of the table whose first line begins with `head`, on a page of the benchmarks."""
    lines = (ROOT / "benchmarks" / page).read_text().splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith(head))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def amount(cell: str) -> float:
    """Return the first number of a cell."""
    return float(re.search(r"[\d,.]*\d(e[+-]\d+)?", cell).group().replace(",", ""))  # type: ignore[union-attr]


def command_line_bars() -> list[tuple[str, float, bool]]:
    """Training a tagger from a file: name, CPU seconds, and whether the row is ours."""
    rows = table("| | CPU | passes | F1 | CRFsuite takes |")
    return [
        (f"{re.sub('`', '', row[0])}, F1 {row[3]}", amount(row[1]), "CRFsuite" not in row[0])
        for row in rows
    ]


def footprint_bars(column: int) -> list[tuple[str, float, bool]]:
    """One column of the footprint on CoNLL-2000: name, value, and whether the row is ours."""
    rows = table("| data | learner | CPU of fit |")[:4]
    return [(row[1].strip("`"), amount(row[column]), "CRFsuite" not in row[1]) for row in rows]


def many_labels_bars() -> list[tuple[str, float, bool]]:
    """Microseconds per position with 4,496 labels: name, value, and whether the row is ours."""
    row = table("| labels | sequences | positions |", "papers/RESULTS.md")[-1]
    return [("our argmax", amount(row[5]), True), ("full Viterbi", amount(row[6]), False)]


def draw_bars(ax, bars, title, unit, log=False):
    """Draw horizontal bars with their values."""
    names = [name for name, _, _ in bars][::-1]
    values = [value for _, value, _ in bars][::-1]
    colors = [OURS if ours else OTHERS for _, _, ours in bars][::-1]
    ax.barh(names, values, color=colors, height=0.62)
    if log:
        ax.set_xscale("log")
    ax.set_xlim(right=max(values) * (6 if log else 1.25))
    for place, value in enumerate(values):
        ax.text(value, place, f"  {value:,g} {unit}", va="center", color=INK)
    ax.set_title(title, loc="left", fontsize=12)
    ax.set_xticks([])
    ax.minorticks_off()
    ax.tick_params(length=0)
    for side in ("top", "right", "bottom", "left"):
        ax.spines[side].set_visible(False)


def save(figure: Figure, name: str) -> None:
    """Write a picture without a date, so that redrawing it gives the same file."""
    figure.savefig(FIGURES / name, metadata={"Date": None}, facecolor="white")


def tagger():
    """Draw the CPU seconds that it takes to train a tagger of CoNLL-2000."""
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    draw_bars(figure.subplots(), command_line_bars(), "CPU seconds to train a tagger", "s")
    save(figure, "measured_tagger.svg")


def footprint():
    """Draw memory, file size and latency."""
    figure = Figure(figsize=(8, 5.2), layout="constrained")
    titles = {3: ("memory of the fit", "MB"), 4: ("model file", "MB"), 5: ("one sentence", "ms")}
    for ax, (column, (title, unit)) in zip(figure.subplots(3), titles.items(), strict=True):
        draw_bars(ax, footprint_bars(column), title, unit)
    save(figure, "measured_footprint.svg")


def many_labels():
    """Draw the time per position of a chain with thousands of labels."""
    figure = Figure(figsize=(8, 1.5), layout="constrained")
    title = "microseconds for a position, 4,496 labels (logarithmic)"
    draw_bars(figure.subplots(), many_labels_bars(), title, "us", log=True)
    save(figure, "measured_labels.svg")


def bounds_of_each_step(svm, X, Y, C):
    """Fit, and return passes, P(w) and the dual after each step.

    The exact passes that compute P(w) are not counted.
    """
    import maxmargin as mm

    found = []

    class EachStep(mm.callbacks.Callback):
        def on_step(self, info):
            found.append((info.passes, mm.objective(model, info.weights(), X, Y, C=C), info.dual))

    model = clone(svm.model)
    model.initialize(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm.fit(X, Y, callbacks=[EachStep()])
    return np.array(found).T


def certificate():
    """Draw the primal and the dual of one training run, and the optimum between them."""
    import maxmargin as mm
    from maxmargin import models
    from maxmargin.data.synthetic import words_of_letters

    X, Y = words_of_letters(300, random_state=0)
    chain = models.Chain(bias=1.0)
    best = mm.StructuralSVM(chain, C=0.1, tol=1e-4, random_state=0).fit(X, Y)
    slow = mm.StructuralSVM(chain, C=0.1, tol=0.01, solver="sda", random_state=0)
    passes, primal, dual = bounds_of_each_step(slow, X, Y, 0.1)
    figure = Figure(figsize=(8, 4), layout="constrained")
    ax = figure.subplots()
    shade = {"color": OURS, "alpha": 0.12, "label": "the gap: the optimum is in here"}
    ax.fill_between(passes, dual, primal, **shade)
    ax.plot(passes, primal, color="#c2410c", marker=".", label="primal: the value of the weights")
    ax.plot(passes, dual, color=OURS, marker=".", label="dual: no weights can go below")
    ax.axhline(best.certificate_.primal, color=INK, linestyle="--", linewidth=0.9, label="optimum")
    ax.set(xlabel="passes over the examples", ylabel="objective P(w)", ylim=(0, None))
    finish(figure, ax, "certificate.svg")


def solvers_race():
    """Draw the gaps of several solvers on the same words."""
    import maxmargin as mm
    from maxmargin import models
    from maxmargin.data.synthetic import words_of_letters

    X, Y = words_of_letters(150, random_state=0)
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    ax = figure.subplots()
    for name in ("proximal", "fasole", "sda", "one-slack", "bcfw", "subgradient"):
        chain = models.Chain("mean-hamming", bias=1.0)
        svm = mm.StructuralSVM(chain, C=1.0, tol=1e-3, solver=name, max_passes=60, random_state=0)
        passes, primal, dual = bounds_of_each_step(svm, X, Y, 1.0)
        gap = np.minimum.accumulate(primal) - np.maximum.accumulate(dual)
        ax.plot(passes, gap / len(X), marker=".", label=f'"{name}"')
    ax.axhline(1e-3, color="gray", linewidth=0.8, linestyle="--")
    ax.set(yscale="log", xlabel="passes over the examples (oracle calls / examples)",
           ylabel="gap, in units of the loss", ylim=(5e-4, 2))  # fmt: skip
    finish(figure, ax, "solvers.svg")


def finish(figure, ax, name):
    """Add a legend, remove the frame at the top and on the right, and write the file."""
    ax.legend(frameon=False)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    save(figure, name)


def words():
    """Draw the words of the demo."""
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, str(ROOT / "examples/demo_letters.py"), "--output", folder], check=True
        )
        (FIGURES / "words.png").write_bytes((Path(folder) / "words.png").read_bytes())


DRAWINGS = (tagger, footprint, many_labels, certificate, solvers_race, words)

if __name__ == "__main__":
    for drawing in DRAWINGS:
        if len(sys.argv) == 1 or drawing.__name__ in sys.argv[1:]:
            drawing()
            print(drawing.__name__)
