"""Kernels, exact and with a few basis rows, on rings that no line separates.

Run: python examples/kernels.py [--small]
"""

import sys
import time

from sklearn.datasets import make_circles
from sklearn.model_selection import GridSearchCV

from maxmargin import StructuralSVM, load, models

small = "--small" in sys.argv
n = 200 if small else 2000
X_train, y_train = make_circles(n, noise=0.15, factor=0.5, random_state=0)
X_test, y_test = make_circles(1000, noise=0.15, factor=0.5, random_state=1)


def report(name, model):
    svm = StructuralSVM(model, C=1.0, tol=1e-2, random_state=0)
    began = time.perf_counter()
    svm.fit(X_train, y_train)
    seconds = time.perf_counter() - began
    print(
        f"{name:22s} right {svm.score(X_test, y_test):.3f}   gap {svm.certificate_.gap:.4f}   "
        f"primal {svm.certificate_.primal:8.2f}   {seconds:.2f} s"
    )
    return svm


flat = models.Multiclass(bias=1.0)
report("linear", flat)
exact = report("rbf, exact", models.Kernel(flat, "rbf", gamma=2.0))

# Fewer basis rows span a smaller space of functions: the optimum is larger, and reached faster.
for k in (2, 5, 10, 20, 40):
    rank = models.Kernel(flat, "rbf", gamma=2.0, rank=k)
    svm = report(f"rbf, {k} basis rows", rank)
print(f"the last basis leaves out {svm.model_.basis_.residual:.1e} of the kernel's trace")

# The parameters of the kernel are also parameters of the estimator.
search = GridSearchCV(svm, {"model__gamma": [0.01, 0.1, 1.0, 10.0]}, cv=3).fit(X_train, y_train)
print(f"best gamma {search.best_params_['model__gamma']:g}")

exact.save("rings.safetensors")  # the file holds the support rows and their coefficients
again = load("rings.safetensors")
assert (again.predict(X_test) == exact.predict(X_test)).all()
print(f"the file of the exact machine holds {len(again.model_.centres_)} of {n} rows")
