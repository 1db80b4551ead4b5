"""Which solver? All of them minimise one function, and the certificate compares them.

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

# "auto" is the one to use; solver_ names what it picked. Names stand for default settings, an
# instance carries its own.
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
        # A solver that runs out of passes warns; here the table says so.
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm.fit(X, Y)
    c = svm.certificate_
    print(f"{name:<15}  {c.status!s:<11}  {c.gap:<8.2g}  {c.passes:6.1f}  {c.seconds:7.2f}", end="")
    print(f"  {c.primal:8.4f}  {c.dual:8.4f}")
    # Whatever the solver: the optimum lies between dual and primal.
    assert c.dual <= c.primal

# The certificate is recomputed from the definition, by anyone, at any time.
print("recomputed gap of the last one:", f"{mm.certify(svm, X, Y).gap:.2g}")
