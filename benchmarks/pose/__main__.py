"""python -m benchmarks.pose [--train N] [--types 1 4] [--C 30] [--out DIR] [--small]

Find the 14 joints of people doing sports (lspet400: 300 images to train on, 100 to test). The model
is a
tree of parts on cells of 4 x 4 pixels, with histograms of gradients as features. Parts have hidden
types: each type has its own appearance and spring, and there is a weight for each pair of types of
neighbours. Invisible joints have no true place, so their places are hidden, too. The baselines are
the
mean position of every joint, and a tree that is trained only on images without hidden joints.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.datasets import data_file
from benchmarks.landmarks.features import gradient_map
from benchmarks.papers import rows as reading
from benchmarks.pose.measures import LIMBS, TREE, pck, pcp
from benchmarks.timing import write_csv
from maxmargin import LatentSVM, StructuralSVM, models

STEP = 4  # pixels per cell side
SHARES = ("PCK@0.1", "PCK@0.2", "PCP", *LIMBS)


@dataclass
class People:
    """Images of any size, and joints (n, 14, 2) as row and column in pixels; NaN if not visible."""

    images: list[np.ndarray]
    joints: np.ndarray

    def __getitem__(self, rows: Any) -> People:
        return People(
            [self.images[i] for i in np.arange(len(self.images))[rows]], self.joints[rows]
        )

    def maps(self) -> list[np.ndarray]:
        """Return the features of all cells."""
        return [gradient_map(image, STEP) for image in self.images]

    def places(self) -> list[np.ndarray]:
        """Return the cells of the joints."""
        return [
            np.clip(joints // STEP, 0, np.array([(side - 1) // STEP for side in image.shape]))
            for image, joints in zip(self.images, self.joints, strict=True)
        ]

    @property
    def sizes(self) -> np.ndarray:
        """Return the sizes of the images with shape (n, 1, 2)."""
        return np.array([image.shape for image in self.images], dtype=np.float64)[:, None]


def sports() -> People:
    """Load lspet400; a joint outside its image counts as invisible, even if it is marked as visible."""
    with np.load(data_file("lspet400", "lspet400.npz"), allow_pickle=False) as file:
        sizes, joints = file["shape"], file["joints"].astype(np.float64)
        ends = np.cumsum(sizes.prod(axis=1))
        images = [
            flat.reshape(size)
            for flat, size in zip(np.split(file["gray"], ends[:-1]), sizes, strict=True)
        ]
    points = joints[:, :, 1::-1].copy()
    outside = ((points < 0) | (points >= sizes[:, None])).any(axis=2)
    points[outside | (joints[:, :, 2] == 0)] = np.nan
    return People(images, points)


def made_up(n: int, seed: int) -> People:
    """Make stick figures with moving arms and legs for a run without data; some joints are unmarked."""
    rng = np.random.default_rng(seed)
    standing = np.array(
        [
            *([52, 20], [42, 20], [32, 20], [32, 28], [42, 28], [52, 28]),
            *([28, 10], [22, 13], [14, 19], [14, 29], [22, 35], [28, 38], [11, 24], [4, 24]),
        ]
    )
    joints = standing + rng.normal(scale=1.2, size=(n, 14, 2)) + rng.integers(-2, 4, size=(n, 1, 2))
    raised = rng.random(n) < 0.5
    joints[raised, 6:8] -= [[20.0, 0.0], [14.0, 0.0]]  # for these figures, the right arm is up
    joints = np.clip(joints, 1, [58, 46])
    images = []
    for figure in joints:
        image = rng.integers(0, 40, size=(60, 48)).astype(np.uint8)
        for a, b in TREE:
            for t in np.linspace(0, 1, 30):
                row, column = (figure[a] * (1 - t) + figure[b] * t).astype(int)
                image[row : row + 2, column : column + 2] = 255
        images.append(image)
    joints[rng.random((n, 14)) < 0.08] = np.nan
    return People(images, joints)


def measures(people: People, places: Sequence[np.ndarray]) -> dict[str, float]:
    """Return the measures of predicted cells; the centre of a cell is its position."""
    found = STEP * np.array(places) + STEP / 2
    shares = pcp(people.joints, found)
    return {
        "PCK@0.1": pck(people.joints, found, 0.1),
        "PCK@0.2": pck(people.joints, found, 0.2),
        **shares,
    }


def mean_pose(train: People, test: People) -> dict[str, Any]:
    """Predict the mean place of every joint as a share of the image, without looking at test images."""
    mean = np.nanmean(train.joints / train.sizes, axis=0)
    return {
        "method": "mean pose",
        "images": len(train.images),
        **measures(test, mean * test.sizes // STEP),
    }


def fitted(name: str, svm: Any, train: People, test: People) -> dict[str, Any]:
    """Return the row of an estimator."""
    X, Y = train.maps(), train.places()
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the gap is in the table
        svm.fit(X, Y)
    spent = time.process_time() - began
    found = svm.certificate_
    row = {"method": name, "images": len(X), **measures(test, svm.predict(test.maps()))}
    more = {"passes": round(found.passes, 1), "gap": found.gap, "cpu_s": spent}
    rounds = len(getattr(svm, "objective_path_", [0]))
    return {**row, "rounds": rounds, **more}


def run(train: People, test: People, options: argparse.Namespace) -> list[dict]:
    """Return a row for each method."""
    settings = {"tol": options.tol, "max_passes": options.passes, "random_state": 0}
    whole = train[~np.isnan(train.joints).any(axis=(1, 2))]
    rows: list[dict] = []

    def note(row: dict) -> None:
        print(row["method"], {k: v for k, v in row.items() if k.startswith("PC")}, flush=True)
        rows.append(row)

    note(mean_pose(train, test))
    plain = StructuralSVM(models.Tree(TREE), C=options.C / len(whole.images), **settings)
    note(fitted("tree, all joints visible", plain, whole, test))
    for types in options.types:
        for rounds in dict.fromkeys([1, options.rounds]):
            if types == 1 and rounds != options.rounds:
                continue
            model = models.Latent(models.Tree(TREE), parts=types)
            svm = LatentSVM(model, C=options.C / len(train.images), max_rounds=rounds, **settings)
            name = f"{types} types" if rounds > 1 else f"{types} types, clusters kept"
            note(fitted(name, svm, train, test))
    return rows


def shown(rows: list[dict]) -> str:
    """Format the rows as a Markdown table."""
    lines = [f"| method | images | {' | '.join(SHARES)} | rounds | passes | CPU s |"]
    lines.append("|---" * (len(SHARES) + 5) + "|")
    for row in rows:
        shares = " | ".join(f"{100 * row[name]:.1f}" for name in SHARES)
        spent = [str(row.get("rounds", "")), str(row.get("passes", ""))]
        spent.append(f"{row['cpu_s']:.0f}" if "cpu_s" in row else "")
        lines.append(f"| {row['method']} | {row['images']} | {shares} | {' | '.join(spent)} |")
    return "\n".join(lines)


def says(rows: Sequence[reading.Row]) -> list[str]:
    """Describe the scores with hidden types, with one type, and of the mean pose."""
    most = max(reading.number(row, "PCP") for row in rows)
    best = [row["method"] for row in rows if reading.number(row, "PCP") == most]
    shares = [
        f"{name}: " + "; ".join(f"{row['method']} {reading.number(row, name):.3f}" for row in rows)
        for name in SHARES[1:3]
    ]
    return [f"{'. '.join(shares)}.", f"The most parts are right with: {'; '.join(best)}."]


def main(arguments: Sequence[str] | None = None) -> list[dict]:
    """Run, write pose.csv, print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.pose", description=__doc__)
    parser.add_argument("--train", type=int, default=300)
    parser.add_argument("--types", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--C", type=float, default=30.0, help="times n")
    parser.add_argument("--tol", type=float, default=0.3, help="in cells")
    parser.add_argument("--passes", type=int, default=12, help="of all rounds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    if options.small:
        options.types, options.passes = [1, 2], 10
        train, test = made_up(20, 0), made_up(10, 1)
    else:
        people = sports()
        train, test = people[: options.train], people[300:]
    rows = run(train, test, options)
    columns = dict.fromkeys(name for row in rows for name in row)
    write_csv(options.out / "pose.csv", [{k: row.get(k, "") for k in columns} for row in rows])
    print(shown(rows))
    return rows


if __name__ == "__main__":
    main()
