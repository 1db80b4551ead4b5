"""python -m benchmarks.landmarks [--train N] [--C 1 10] [--out DIR] [--small]

Find the 68 landmarks of the faces in faces68. The model is a tree of parts on a grid of 40 x 40
cells over 80 x 80 pixels, with histograms of gradients as features. The baseline predicts the mean
position of every landmark, without looking at the image. No person is in both the training set and
the test set.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.datasets import data_file
from benchmarks.landmarks.features import gradient_map
from benchmarks.timing import write_csv
from maxmargin import StructuralSVM, models

STEP = 2  # pixels per cell side
Faces = tuple[np.ndarray, np.ndarray]  # images (n, 80, 80), points (n, parts, 2) as row, column


def faces(n_train: int, n_test: int, seed: int = 0) -> tuple[Faces, Faces]:
    """Return images and points in pixels; no person is in both the training set and the test set."""
    with np.load(data_file("faces68", "faces68.npz"), allow_pickle=False) as file:
        images = np.concatenate([file["images_train"], file["images_test"]])
        points = np.concatenate([file["points_train"], file["points_test"]])[:, :, ::-1]
        person = np.concatenate([file["person_train"], file["person_test"]])
    inside = ((points >= 0) & (points < images.shape[1])).all(axis=(1, 2))
    rng = np.random.default_rng(seed)
    unseen = rng.permutation(np.unique(person))[: len(np.unique(person)) // 5]
    test = inside & np.isin(person, unseen)
    train = inside & ~np.isin(person, unseen)
    chosen = [
        rng.permutation(np.flatnonzero(mask))[:n] for mask, n in ((train, n_train), (test, n_test))
    ]
    return tuple((images[rows], points[rows]) for rows in chosen)  # type: ignore[return-value]


def made_up(n: int, seed: int) -> Faces:
    """Make dark images with four bright bars, two of them vertical, for a run without data."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 40, size=(n, 24, 24)).astype(np.uint8)
    shape = np.array([[4, 4], [4, 14], [14, 9], [16, 16]])
    points = shape + rng.integers(0, 4, size=(n, 1, 2)) + rng.integers(0, 2, size=(n, 4, 2))
    for image, places in zip(images, points, strict=True):
        for p, (row, column) in enumerate(places):
            along = (
                (slice(row - 2, row + 3), column) if p % 2 else (row, slice(column - 2, column + 3))
            )
            image[along] = 255
    return images, points.astype(np.float64)


def as_examples(data: Faces) -> tuple[list[np.ndarray], list[np.ndarray]]:
    images, points = data
    return [gradient_map(x, STEP) for x in images], list(np.floor(points / STEP).astype(int))


def error(points: np.ndarray, places: Sequence[np.ndarray]) -> float:
    """Return the mean distance in pixels from the centres of the predicted cells to the points."""
    centres = STEP * np.array(places) + STEP / 2
    return float(np.linalg.norm(centres - points, axis=2).mean())


def run(train: Faces, test: Faces, costs: Sequence[float], tol: float, passes: int) -> list[dict]:
    X, Y = as_examples(train)
    X_test, _ = as_examples(test)
    mean = np.floor(train[1].mean(axis=0) / STEP)
    row: dict[str, Any] = {
        "examples": len(X),
        "C": "",
        "error_px": error(test[1], [mean] * len(X_test)),
    }
    rows = [{**row, "method": "mean position", "passes": "", "gap": "", "cpu_s": ""}]
    for cost in costs:
        svm = StructuralSVM(models.Tree(), C=cost / len(X), tol=tol, max_passes=passes)
        svm.set_params(n_jobs=2, random_state=0)
        began = time.process_time()
        svm.fit(X, Y)
        spent = time.process_time() - began
        found = svm.certificate_
        rows.append(
            {
                **row,
                "method": "Tree",
                "C": cost,
                "error_px": error(test[1], svm.predict(X_test)),
                "passes": round(found.passes, 1),
                "gap": found.gap,
                "cpu_s": spent,
            }
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmarks.landmarks", description=__doc__)
    parser.add_argument("--train", type=int, default=500)
    parser.add_argument("--test", type=int, default=400)
    parser.add_argument("--C", type=float, nargs="+", default=[10.0, 100.0, 1000.0], help="times n")
    parser.add_argument("--tol", type=float, default=0.05, help="in cells")
    parser.add_argument("--passes", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    if options.small:
        train, test = made_up(20, 0), made_up(20, 1)
    else:
        train, test = faces(options.train, options.test)
    rows = run(train, test, options.C, options.tol, options.passes)
    write_csv(options.out / "landmarks.csv", rows)
    for row in rows:
        print(
            ", ".join(
                f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()
            )
        )
    return rows


if __name__ == "__main__":
    main()
