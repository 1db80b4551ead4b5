"""Which solver? All solvers minimise the same function, so their certificates can be compared.

Run: python examples/choosing_a_solver.py [--small]
"""

import sys
import warnings

from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin import models, solvers
from maxmargin.data.synthetic import words_of_letters

small = "--small" in sys.argv
X, Y = words_of_letters(40 if small else 300, random_state=0)

# "auto" is the recommended choice; solver_ names the solver that it picked. A name stands for a
# solver with default settings; an instance carries its own settings.
candidates = {
    "auto": "auto",
    "fasole": "fasole",
    "sda": "sda",
    "bcfw, pairwise": solvers.BCFW(pairwise=True),
    "subgradient": "subgradient",
}
print("solver           status       gap       passes  seconds    primal      dual")
for name, solver in candidates.items():
    svm = mm.StructuralSVM(
        models.Chain(loss="mean-hamming"), C=0.1, solver=solver, tol=1e-2, max_passes=100,
        random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        # A solver that runs out of passes warns; the table below shows that in its status column.
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm.fit(X, Y)
    c = svm.certificate_
    print(f"{name:<15}  {c.status!s:<11}  {c.gap:<8.2g}  {c.passes:6.1f}  {c.seconds:7.2f}", end="")
    print(f"  {c.primal:8.4f}  {c.dual:8.4f}")
    # For every solver, the optimum lies between dual and primal.
    assert c.dual <= c.primal

# Anybody can recompute the certificate from the definition at any time.
print("recomputed gap of the last one:", f"{mm.certify(svm, X, Y).gap:.2g}")
