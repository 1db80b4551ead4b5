"""Write docs/compatibility.md from solvers and models: python tools/write_compatibility.py"""

from __future__ import annotations

from pathlib import Path

from maxmargin.solvers import compatibility_table

TARGET = Path(__file__).parents[1] / "docs" / "compatibility.md"

PAGE = """# Which solver solves what

Written by `python tools/write_compatibility.py` with `solvers.compatibility_table()`, from what
solvers and models declare; do not edit. A test compares this page with the code.

{table}
"reaches any tol": a tight `tol` is reached in practice, not only in the limit. `BCFW` does so
with `pairwise=True`, `Streaming` with `passes=None` and a cache that is large enough.

`formulation="log"` and `"softmax-margin"` are those of `CRF` and `MulticlassLogistic` ([crf.md](crf.md)):
for chains of any kind, classes, grammars, and graphs without cycles.
The sum hinge is for Binary, Multiclass, Chain, Grammar, FactorGraph, MultiLabel, Kernel and own models.
Ranking and Tree refuse it: orders and placements that violate are too many to list, and nothing bounds their
sum.
`"gdmm"` on chains takes no covariance matrix, and nowhere infinite scales (docs/objective.md says why).
A formulation or a regulariser without a `yes` is refused before the first pass, with the names of the
solvers that can. `BCFW` with `averaging=True` does not honour `nonnegative`.
"""


def page() -> str:
    """Return the text of the page."""
    return PAGE.format(table=compatibility_table())


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
