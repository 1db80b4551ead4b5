"""Which C, and when to stop? A path over C with a dev set, and early stopping.

The example also shows the warning that a fit gives if C is too small.

Run: python examples/choosing_c.py [--small]
"""

import sys
import warnings

import maxmargin as mm
from maxmargin import models
from maxmargin.callbacks import EarlyStopping
from maxmargin.data.synthetic import words_of_letters

small = "--small" in sys.argv
X, Y = words_of_letters(60 if small else 300, random_state=0)
dev = words_of_letters(60 if small else 200, random_state=1)
test = words_of_letters(60 if small else 200, random_state=2)
svm = mm.StructuralSVM(models.Chain(bias=1.0), random_state=0)  # tol="auto"

# The range of C comes from the data; each solution starts from the one before it.
path = mm.regularization_path(svm, X, Y, 4 if small else 8, validation=dev)
for C, certificate, score in zip(path.Cs, path.certificates, path.scores, strict=True):
    print(
        f"C = {C:<8.3g} letters right on the dev set {score:.3f}, objective proven within "
        f"{100 * certificate.relative_gap:.2g} %, {certificate.passes:.0f} passes"
    )
print(f"best C {path.best.C:.3g}: letters right on new words {path.best.score(*test):.3f}")

# If nothing is learnt at C, a warning says so and suggests another C.
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    mm.StructuralSVM(models.Chain(bias=1.0), C=1e-7, random_state=0).fit(X, Y)
print(f"C = 1e-07: {warned[0].message}")

# Early stopping on the dev set does some of the work of a smaller C.
stop = EarlyStopping(*dev, patience=5)
large = mm.StructuralSVM(models.Chain(bias=1.0), C=path.Cs[-1], random_state=0)
large.fit(X, Y, callbacks=[stop])
passes, score = max(stop.scores_, key=lambda seen: seen[1])
print(f"C = {large.C:.3g}, {large.certificate_.status}: letters right on the dev set {score:.3f}")
print(f"after {passes:.0f} passes, on new words {large.score(*test):.3f}")
