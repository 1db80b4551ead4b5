"""Sentences about the rows of streams; each is computed from the rows of one run."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.papers.rows import Row, number, short


def memory(rows: Sequence[Row]) -> list[str]:
    """Describe the peaks of memory beside the size of the data."""
    peaks = ", ".join(
        f"{short(number(row, 'peak_bytes') / 1e6)} MB for {short(number(row, 'data_bytes') / 1e6)} MB of data"
        for row in rows
    )
    within = all(row["within"] == "True" for row in rows)
    return [f"Peaks are {peaks}; {'all' if within else 'not all'} within the allowed memory."]


def objective(rows: Sequence[Row]) -> list[str]:
    """Describe how far one pass and cyclic passes are from the optimum."""
    return [
        f"{row['task']}, C' = {row['weight']}, passes: {row['passes']}: at most "
        f"{100 * number(row, 'above_optimum'):.2f} % above the optimum after "
        f"{short(number(row, 'oracle_passes'))} oracle passes; the batch solver took "
        f"{short(number(row, 'batch_oracle_passes'))}."
        for row in rows
    ]


def cyclic(rows: Sequence[Row]) -> list[str]:
    """Describe the CPU time relative to a fit in memory."""
    return [
        f"{row.get('task', 'treebank-tags')}: a cache of {row['cache_mib']} MiB that keeps {row['keeps']} "
        f"takes {number(row, 'ratio'):.2f} times the CPU of a fit in memory; its objective differs by "
        f"{100 * number(row, 'above'):.2f} %."
        for row in rows
        if row["cache_mib"] != "in memory"
    ]
