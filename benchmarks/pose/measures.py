"""Measures of the quality of poses: PCP for limbs, PCK for joints.

    PCP   a limb is right if each of its ends is at most half the limb's true length off
    PCK   a joint is right if it is at most alpha times the longer side of the person's box off

The box contains the visible joints of the person. (Yang and Ramanan, "Articulated human detection
with
flexible mixtures of parts".) Invisible joints do not count, nor do limbs with an invisible end.
"""

from __future__ import annotations

import numpy as np

JOINTS = (
    "right ankle",
    "right knee",
    "right hip",
    "left hip",
    "left knee",
    "left ankle",
    "right wrist",
    "right elbow",
    "right shoulder",
    "left shoulder",
    "left elbow",
    "left wrist",
    "neck",
    "head top",
)
# A tree with the neck as its root.
TREE = (
    (12, 13),
    (12, 8),
    (8, 7),
    (7, 6),
    (12, 9),
    (9, 10),
    (10, 11),
    (8, 2),
    (2, 1),
    (1, 0),
    (9, 3),
    (3, 4),
    (4, 5),
)
LIMBS = {
    "head": ((12, 13),),
    "torso": ((8, 2), (9, 3)),
    "upper leg": ((2, 1), (3, 4)),
    "lower leg": ((1, 0), (4, 5)),
    "upper arm": ((8, 7), (9, 10)),
    "forearm": ((7, 6), (10, 11)),
}


def pck(truth: np.ndarray, found: np.ndarray, alpha: float) -> float:
    """Return the share of right joints; `truth` is (n, 14, 2), with NaN for an invisible joint."""
    sides = np.nanmax(truth, axis=1) - np.nanmin(truth, axis=1)
    away = np.linalg.norm(truth - found, axis=2)
    seen = ~np.isnan(away)
    return float((away <= alpha * sides.max(axis=1, keepdims=True))[seen].mean())


def pcp(truth: np.ndarray, found: np.ndarray) -> dict[str, float]:
    """Return the share of right limbs of each kind, and of all limbs."""
    away, right = np.linalg.norm(truth - found, axis=2), {}
    for name, limbs in LIMBS.items():
        answers = []
        for a, b in limbs:
            length = np.linalg.norm(truth[:, a] - truth[:, b], axis=1)
            seen = ~np.isnan(length)
            both = np.maximum(away[:, a], away[:, b])[seen] <= length[seen] / 2
            answers.append(both)
        right[name] = np.concatenate(answers)
    shares = {name: float(own.mean()) if len(own) else np.nan for name, own in right.items()}
    return {"PCP": float(np.concatenate(list(right.values())).mean()), **shares}
