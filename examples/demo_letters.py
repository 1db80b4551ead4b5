"""Read handwritten-looking words: letters one by one, and letters with their neighbours.

Both machines see the same pixels. The flat machine classifies every letter alone; the chain also
weighs which letter follows which. The example writes words.png and convergence.png.

Run: python examples/demo_letters.py [--small] [--output FOLDER]
"""

import argparse
import time
from pathlib import Path

import numpy as np

import maxmargin as mm
from maxmargin import models
from maxmargin.data.synthetic import words_of_letters
from maxmargin.report import plot_convergence

C = 0.1
TOL = 1e-3
SHOWN = 12


def main():
    options = parse_options()
    began = time.perf_counter()
    n_train, n_test = (60, 40) if options.small else (3000, 1000)
    X_train, Y_train = words_of_letters(n_train, random_state=0)
    X_test, Y_test = words_of_letters(n_test, random_state=1)
    n_letters = sum(map(len, Y_train))
    print(f"{n_train} words with {n_letters} letters to train on, {n_test} words to test on\n")

    flat = mm.StructuralSVM(models.Multiclass(bias=1.0), C=C, tol=TOL, random_state=0, verbose=1)
    print("letters alone: Multiclass", flush=True)
    flat.fit(np.vstack(X_train), np.concatenate(Y_train))
    report(flat)

    chain = mm.StructuralSVM(models.Chain(bias=1.0), C=C, tol=TOL, random_state=0, verbose=1)
    print("letters and their neighbours: Chain", flush=True)
    chain.fit(X_train, Y_train)
    report(chain)

    alone = [flat.predict(x) for x in X_test]
    together = chain.predict(X_test)
    compare(Y_test, {"letters alone": alone, "with neighbours": together})

    options.output.mkdir(parents=True, exist_ok=True)
    draw_words(options.output / "words.png", X_test, Y_test, alone, together)
    both = {"letters alone": flat, "with neighbours": chain}
    plot_convergence(both, tol=TOL).figure.savefig(options.output / "convergence.png", dpi=120)
    print(f"\npictures: {options.output / 'words.png'}, {options.output / 'convergence.png'}")
    print(f"{time.perf_counter() - began:.1f} seconds in all")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="a few words only")
    parser.add_argument("--output", type=Path, default=Path("demo_output"))
    return parser.parse_args()


def report(svm):
    """Print the certificate in words."""
    c = svm.certificate_
    print(f"  solver {svm.solver_}: {c.status}, {'certified' if c.exact else 'not certified'}")
    print(f"  the optimum lies in [{c.dual:.4f}, {c.primal:.4f}]", end=", ")
    print(f"gap {c.gap:.2e} per example (asked for {c.tol:g})")
    print(f"  {c.passes:.1f} passes, {c.oracle_calls} oracle calls, {c.seconds:.2f} seconds\n")


def compare(Y, predictions):
    """Print the share of letters and of whole words that are right."""
    print("on new words       letters right   words right")
    for name, Y_hat in predictions.items():
        right = [np.equal(y, y_hat) for y, y_hat in zip(Y, Y_hat, strict=True)]
        letters = np.mean(np.concatenate(right))
        words = np.mean([row.all() for row in right])
        print(f"{name:<17}  {letters:13.1%}   {words:11.1%}")


def draw_words(path, X, Y, alone, together):
    """Draw some words and, under each, the readings of the two machines, with wrong letters in red."""
    from matplotlib.figure import Figure

    # Show the words that at least one machine misread first: they tell more than the others.
    missed = [i for i, y in enumerate(Y) if list(alone[i]) != y or list(together[i]) != y]
    chosen = (missed + list(range(len(Y))))[:SHOWN]
    figure = Figure(figsize=(11, 7), layout="constrained")
    figure.suptitle(
        "New words that at least one of the two misread, wrong letters in red\n"
        "first line: letters alone, second line: with neighbours"
    )
    for ax, i in zip(figure.subplots(4, 3).ravel(), chosen, strict=False):
        bitmap = np.hstack([letter.reshape(16, 8) for letter in X[i]])
        ax.imshow(bitmap, cmap="gray_r", extent=(0, len(Y[i]), 0, 2))
        ax.set(xlim=(0, 9), ylim=(-1.6, 2), xticks=[], yticks=[], frame_on=False)
        for height, reading in ((-0.5, alone[i]), (-1.25, together[i])):
            for t, (true, read) in enumerate(zip(Y[i], reading, strict=True)):
                color, weight = ("black", "normal") if read == true else ("red", "bold")
                ax.text(t + 0.5, height, str(read), color=color, weight=weight, ha="center",
                        va="center", family="monospace", fontsize=13)  # fmt: skip
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
