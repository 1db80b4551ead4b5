"""Data and machines with kernels."""

import numpy as np
from sklearn.datasets import make_circles

import maxmargin as mm
from reference.cases import binary_case, chain_case, fresh, multiclass_case

CASES = {
    "multiclass": lambda g: multiclass_case(g, costs=True, bias=1.0, weighted=True),
    "multiclass-csr32": lambda g: multiclass_case(g, layout="csr", dtype=np.float32, C=0.5),
    "binary": lambda g: binary_case(g, bias=1.0),
    "chain": lambda g: chain_case(g, n=5, lengths=(3, 1, 4), n_classes=2, start=True, bias=2.0),
    "chain-csr": lambda g: chain_case(g, n=5, lengths=(2, 3), layout="csr", end=True, mean=True),
}


def case_of(name, seed):
    return CASES[name](fresh(seed, 70 + list(CASES).index(name)))


def fitted(case, model, relative=1e-7, solver="auto", **settings):
    """Return a machine with this model on the data of a case; its tol is relative to the optimum
    per mass."""
    tol = relative * case.optimum.value / float(case.budgets.sum())
    defaults = {"tol": tol, "max_passes": 100_000, "max_seconds": 120.0, "random_state": 0}
    defaults |= {"rescaling": case.rescaling}
    svm = mm.StructuralSVM(model, C=case.C, solver=solver, **(defaults | settings))
    return svm.fit(case.X, case.Y, sample_weight=case.sample_weight)


def circles_of(rescaling, seed):
    X, y = make_circles(40, noise=0.1, factor=0.4, random_state=seed)
    case = multiclass_case(fresh(seed, 76), n=40, n_features=2, n_classes=2, C=2.0)
    return case.replace(X=X, Y=y.tolist(), rescaling=rescaling)


def agree(case, a, b):
    """Return whether two machines predict the same, up to near ties (rows of zeros tie)."""
    for i, (u, v) in enumerate(zip(a.predict(case.X), b.predict(case.X), strict=True)):
        x = case.X[i]
        best, other = (a.model_.joint_feature(x, y) @ a.coef_ for y in (u, v))
        if not (np.array_equal(u, v) or abs(best - other) <= 1e-3 * (1 + abs(best))):
            return False
    return True


NONLINEAR = {
    "rbf": {"kernel": "rbf", "gamma": 0.4},
    "poly": {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0},
    "laplacian": {"kernel": "laplacian", "gamma": 0.3},
}
