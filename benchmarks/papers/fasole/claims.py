"""Compare the rows of Table 2 with the paper's claims; each sentence is computed from one run's rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.papers.fasole.table2 import ALLOWED

Row = Mapping[str, str]


def claims(rows: Sequence[Row]) -> list[str]:
    """Return all sentences."""
    sets = list(dict.fromkeys((row["data"], row["inputs"]) for row in rows))
    return [
        sentence
        for data, inputs in sets
        for sentence in of_set(
            f"{data} ({inputs} inputs)",
            [row for row in rows if (row["data"], row["inputs"]) == (data, inputs)],
        )
    ]


def of_set(name: str, rows: Sequence[Row]) -> Iterable[str]:
    """Yield the sentences about one data set."""
    passes = {(row["method"], row["lambda"]): float(row["passes"]) for row in rows}
    done = {(row["method"], row["lambda"]): row["converged"] == "True" for row in rows}
    lambdas = list(dict.fromkeys(row["lambda"] for row in rows))
    fasole = [row for row in rows if row["method"] == "fasole"]
    near = [
        row["lambda"]
        for row in fasole
        if float(row["ratio"]) <= ALLOWED and done["fasole", row["lambda"]]
    ]
    yield (
        f"{name}: FASOLE reaches the gap in at most {ALLOWED} times the paper's passes for "
        f"{len(near)} of {len(lambdas)} lambda ({', '.join(near) or 'none'})."
    )
    for other, claim in (
        ("sdm", "The paper: SDM takes more passes for small lambda"),
        ("cpa", "The paper: CPA takes an order of magnitude more"),
    ):
        ratios = []
        for each in lambdas:
            open_gap = "" if done[other, each] else " (not at the gap)"
            ratios.append(f"{passes[other, each] / passes['fasole', each]:.1f}{open_gap}")
        shown = f"passes of {other} divided by passes of fasole, lambda {', '.join(lambdas)}"
        yield f"{name}: {shown}: {', '.join(ratios)}. {claim}."
    yield f"{name}, sums over lambda: {accumulated(rows)}."
    missed = "0.1 and 0.01" if name.startswith("faces68") else "0.01 and 0.001"
    reached = [each for each in lambdas if done["bcfw", each]]
    yield (
        f"{name}: BCFW in random order reaches the gap within the paper's iterations for lambda "
        f"{', '.join(reached) or 'none'}. The paper: it does not for {missed}."
    )


def accumulated(rows: Sequence[Row]) -> str:
    """Describe the last two rows of the paper's table: passes and time relative to FASOLE."""
    found = []
    for column, theirs in (("passes", "paper_passes"), ("cpu", "paper_seconds")):
        for other in ("cpa", "bcfw", "sdm"):
            ours, paper = (
                total(rows, other, c) / total(rows, "fasole", c) for c in (column, theirs)
            )
            found.append(f"{column} of {other} / fasole {ours:.2g} (the paper {paper:.2g})")
    return ", ".join(found)


def total(rows: Sequence[Row], method: str, column: str) -> float:
    """Return the sum of a column."""
    return sum(float(row[column]) for row in rows if row["method"] == method)
