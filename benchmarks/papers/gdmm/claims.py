"""What the rows of GDMM's tables say; each sentence is computed from the rows of one run."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.papers.rows import Row, chosen, number, over, short, values

GDMM, DEFAULT = "gdmm", "proximal"
ALL_PAIRS = ("bcfw-full", "gdmm-exhaustive")


def curves(rows: Sequence[Row]) -> list[str]:
    """Gaps of the methods at their ends."""
    return [
        *gaps(rows),
        *beside_all_pairs(rows),
        "The paper: with few labels GDMM is competitive, with many it is orders of magnitude ahead of "
        "methods that look at all pairs of labels.",
    ]


def beside_all_pairs(rows: Sequence[Row]) -> list[str]:
    """The last gap of GDMM over those of methods that look at all pairs of labels, and of the default."""
    found = []
    for task in values(rows, "task"):
        own = chosen(rows, task=task)
        last = {name: chosen(own, method=name)[-1] for name in values(own, "method")}
        others = [name for name in (*ALL_PAIRS, DEFAULT) if name in last]
        if GDMM in last and others:
            ratios = ", ".join(
                f"{short(over(last[GDMM], last[m], 'gap'))} times that of {m}" for m in others
            )
            found.append(f"{task}: the gap of {GDMM} at its end is {ratios}.")
    if not found:
        return []
    return [*found, f"{', '.join(ALL_PAIRS)} look at all pairs of labels; {DEFAULT} does not."]


def labels(rows: Sequence[Row]) -> list[str]:
    """Objectives of the relaxation, and scores; or what the joint oracle looks at."""
    if "looks" in rows[0]:
        return [
            f"{row['task']}: a visit looks at {short(number(row, 'looks'))} weights and takes "
            f"{short(number(row, 'visit_us'))} us; a look at all {row['pairs']} pairs takes "
            f"{short(number(row, 'all_pairs_us'))} us."
            for row in rows
        ]
    found = []
    for task in values(rows, "task"):
        found.append(f"{task}, objective of the relaxation: {ends(rows, task, 'primal')}.")
        found.append(f"{task}, micro F1: {ends(rows, task, 'micro_f1')}.")
    return [
        *found,
        "The paper: Soft-BCFW may end above the optimum, the less so and the later the larger rho is; GDMM "
        "does not.",
    ]


def iterations(rows: Sequence[Row]) -> list[str]:
    """Gaps after the same passes; or rates."""
    if "straight" in rows[0]:
        return [
            f"{row['task']}, {row['method']}: ten passes multiply the gap by "
            f"{number(row, 'factor_of_ten_passes'):.3f}; a straight line explains "
            f"{100 * number(row, 'straight'):.0f} % of log gap."
            for row in rows
        ]
    return [
        *gaps(rows),
        "The paper: GDMM converges at a linear rate, and faster than Soft-BCFW, whose end is above the "
        "optimum.",
    ]


def gaps(rows: Sequence[Row]) -> list[str]:
    """The last gap of each method on each task."""
    return [f"{task}, gap at the end: {ends(rows, task, 'gap')}." for task in values(rows, "task")]


def ends(rows: Sequence[Row], task: str, name: str) -> str:
    """The last number of each method, and when it was reached."""
    last = [
        chosen(rows, task=task, method=m)[-1] for m in values(chosen(rows, task=task), "method")
    ]
    return ", ".join(
        f"{row['method']} {number(row, name):.4g} ({number(row, 'cpu_s'):.2g} s)" for row in last
    )
