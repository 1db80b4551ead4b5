"""Sentences about the rows of GDMM's tables; each is computed from the rows of one run."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.papers.rows import Row, chosen, number, over, short, values

GDMM, DEFAULT = "gdmm", "proximal"
ALL_PAIRS = ("bcfw-full", "gdmm-exhaustive")
ARGMAX = "proximal, bcfw and subgradient"  # solvers with an argmax over whole examples


def curves(rows: Sequence[Row]) -> list[str]:
    """Describe the final gaps of the methods."""
    return [
        *gaps(rows),
        *beside_all_pairs(rows),
        "The paper: with few labels GDMM is competitive; with many it is orders of magnitude ahead of "
        "methods that look at all pairs of labels.",
    ]


def beside_all_pairs(rows: Sequence[Row]) -> list[str]:
    """Compare GDMM's last gap with the default's and with methods that look at all pairs of labels."""
    found = []
    for task in values(rows, "task"):
        own = chosen(rows, task=task)
        last = {name: chosen(own, method=name)[-1] for name in values(own, "method")}
        others = [name for name in (*ALL_PAIRS, DEFAULT) if name in last]
        if GDMM in last and others:
            ratios = ", ".join(
                f"{short(over(last[GDMM], last[m], 'gap'))} times the gap of {m}" for m in others
            )
            found.append(f"{task}: the final gap of {GDMM} is {ratios}.")
    if not found:
        return []
    return [*found, f"{', '.join(ALL_PAIRS)} look at all pairs of labels; {DEFAULT} does not."]


def labels(rows: Sequence[Row]) -> list[str]:
    """Describe the objectives of the relaxation, and scores; or the cost of the joint oracle."""
    if "looks" in rows[0]:
        return [
            f"{row['task']}: a visit looks at {short(number(row, 'looks'))} weights and takes "
            f"{short(number(row, 'visit_us'))} us; a look at all {row['pairs']} pairs takes "
            f"{short(number(row, 'all_pairs_us'))} us."
            for row in rows
        ]
    found = []
    for task in values(rows, "task"):
        found.append(f"{task}, objective of the relaxation{objective(rows, task)}.")
        if chosen(rows, task=task)[-1]["labellings"] not in ("", "nan"):
            found.append(
                f"{task}, upper bound on the objective over labellings, which {ARGMAX} minimise: "
                f"{ends(rows, task, 'labellings')}."
            )
        found.append(f"{task}, micro F1: {ends(rows, task, 'micro_f1')}.")
        found.append(f"{task}, CPU seconds of a step: {steps(rows, task)}.")
    return [
        *found,
        "The paper: Soft-BCFW may end above the optimum, but GDMM does not. With a larger rho Soft-BCFW ends "
        "closer to the optimum, but later. On EUR-Lex (410 labels, 19,348 examples) the objective was too "
        "expensive for the paper, too. There a step of GDMM takes a few seconds. A step of every other "
        "method, and of GDMM without its sublinear oracle, takes more than 1,000 s.",
    ]


many = labels


def objective(rows: Sequence[Row], task: str) -> str:
    """Describe the last objective of each method; for a task with a sample, its estimate and its bound."""
    own = chosen(rows, task=task)
    if not own[-1].get("sampled"):
        return f": {ends(rows, task, 'primal')}"
    last = [chosen(own, method=method)[-1] for method in values(own, "method")]
    found = "; ".join(
        f"{row['method']} {number(row, 'sampled'):.3g} +- {number(row, 'sampled_error'):.1g}"
        for row in last
    )
    proven = "; ".join(
        f"proven for {row['method']} on all examples: at most {number(row, 'primal'):.4g}"
        for row in last
        if number(row, "primal") > 0
    )
    return f", estimated on a sample: {found}; {proven}"


def steps(rows: Sequence[Row], task: str) -> str:
    """Describe the mean time of a step of each method.

    It is an upper bound if a further step was cut off, and a lower bound if no step was finished.
    """
    found = []
    for method in values(chosen(rows, task=task), "method"):
        row = chosen(rows, task=task, method=method)[-1]
        spent, whole = number(row, "cpu_s"), number(row, "steps")
        each = f"{spent / whole:.2g}" if whole else f"more than {spent:.2g}"
        found.append(f"{method} {'at most ' if whole and row['ended'] else ''}{each}")
    return "; ".join(found)


def iterations(rows: Sequence[Row]) -> list[str]:
    """Describe gaps after the same number of passes, or rates."""
    if "straight" in rows[0]:
        return [
            f"{row['task']}, {row['method']}: ten passes multiply the gap by "
            f"{number(row, 'factor_of_ten_passes'):.3f}; a straight line explains "
            f"{100 * number(row, 'straight'):.0f} % of log gap."
            for row in rows
        ]
    return [
        *gaps(rows),
        *beside_exhaustive(rows),
        "The paper: GDMM converges at a linear rate, and faster than Soft-BCFW, which ends above the "
        "optimum. GDMM's sublinear oracle takes a tenth of the time on ChineseOCR (3,039 labels).",
    ]


def beside_exhaustive(rows: Sequence[Row]) -> list[str]:
    """Compare the time of the same number of passes with and without a look at all pairs."""
    found = []
    for task in values(rows, "task"):
        ordered, every = (
            {row["pass"]: row for row in chosen(rows, task=task, method=method)}
            for method in (GDMM, f"{GDMM}, exhaustive")
        )
        both = [passes for passes in ordered if passes in every]
        if both:
            last = both[-1]
            found.append(
                f"{task}: {last} passes take {short(number(ordered[last], 'cpu_s'))} s; if each search "
                f"looks at all pairs, {short(over(every[last], ordered[last], 'cpu_s'))} times as long."
            )
    return found


def gaps(rows: Sequence[Row]) -> list[str]:
    """Describe the last gap of each method on each task."""
    return [f"{task}, gap at the end: {ends(rows, task, 'gap')}." for task in values(rows, "task")]


def ends(rows: Sequence[Row], task: str, name: str) -> str:
    """Describe the last number of each method, and when it was reached."""
    last = [
        chosen(rows, task=task, method=m)[-1] for m in values(chosen(rows, task=task), "method")
    ]
    return "; ".join(
        f"{row['method']} {number(row, name):.4g} ({number(row, 'cpu_s'):.2g} s)" for row in last
    )
