"""How the suites meet the package: cases as models, solvers by name, fits to a relative gap."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin import losses, models, solvers
from reference.dense_qp import dual_objective, primal_objective
from reference.enumerate import with_bias
from reference.problems import Case
from reference.python_chain import PythonBinary, PythonChain, PythonMulticlass

# Solvers with pair steps: they must reach the optimum when asked to.
EXACT: dict[str, Callable[[], Any]] = {
    "auto": lambda: "auto",
    "proximal": lambda: "proximal",
    "fasole": lambda: "fasole",
    "fasole-sweeps": lambda: solvers.Fasole(reduced="sweeps", order="random"),
    "fasole-mvp": lambda: solvers.Fasole(rule="mvp"),
    "sda": lambda: "sda",
    "sdm": lambda: "sdm",
    "dual-coordinate": lambda: "dual-coordinate",
    "dual-coordinate-all": lambda: solvers.DualCoordinate(shrinking=False),
    "one-slack": lambda: "one-slack",
    "n-slack": lambda: "n-slack",
    "streaming-cyclic": lambda: solvers.Streaming(passes=None),
    "bcfw-pairwise": lambda: solvers.BCFW(pairwise=True),
    "bcfw-pairwise-gap": lambda: solvers.BCFW(pairwise=True, gap_sampling=True),
}

# Solvers that only go as far as their rate allows.
RATED: dict[str, Callable[[], Any]] = {
    "bcfw": lambda: "bcfw",
    "bcfw-gap": lambda: solvers.BCFW(gap_sampling=True),
    "bcfw-average": lambda: solvers.BCFW(averaging=True),
    "bcfw-fixed-step": lambda: solvers.BCFW(line_search=False),
    "streaming": lambda: "streaming",
    "subgradient": lambda: "subgradient",
    "subgradient-last": lambda: solvers.Subgradient(averaging=False),
}

# File order may be as good as any or may all but stop: in neither list.
EVERY = {**EXACT, **RATED, "sda-cyclic": lambda: solvers.SDA(order="cyclic")}


FLAT = {"multiclass": models.Multiclass, "binary": models.Binary}  # kinds with one label an example


def built_in(case: Case) -> Any:
    """The package's model for a case."""
    options = case.options
    if case.kind == "grammar":
        return models.Grammar(rare=0, **options)
    if case.kind == "tree":
        return models.Tree(**options)
    if case.kind in FLAT:
        loss = "zero-one" if options["costs"] is None else options["costs"]
        return FLAT[case.kind](loss=loss, bias=options["bias"])
    if case.kind == "multilabel":
        return models.MultiLabel(options["pairs"], bias=options["bias"])
    loss = "mean-hamming" if options["mean"] else "hamming"
    if options["costs"] is not None:
        loss = losses.Hamming(costs=options["costs"], mean=options["mean"])
    if case.kind == "graph":
        return models.FactorGraph(options["pairwise"], loss=loss, bias=options["bias"])
    ends = {"start": options["start"], "end": options["end"]}
    return models.Chain(loss=loss, bias=options["bias"], **ends)


def as_python(case: Case) -> tuple[Any, list]:
    """The same problem for a model written in Python: a bias becomes a constant feature."""
    options = case.options
    X = [with_bias(x, options["bias"]) for x in case.truth.examples(case.X)]
    if case.kind == "multiclass":
        return PythonMulticlass(case.truth.costs), X
    if case.kind == "binary":
        return PythonBinary(case.truth.costs), X
    ends = {"start": options["start"], "end": options["end"]}
    return PythonChain(len(case.truth.classes), case.truth.costs, options["mean"], **ends), X


def loss_units(case: Case, relative: float) -> float:
    """The `tol` that bounds P - D by `relative` times the optimum."""
    return relative * case.optimum.value / float(case.budgets.sum())


def fit(case: Case, solver: Any = "auto", relative: float = 1e-7, **settings: Any) -> Any:
    """A StructuralSVM with the built-in model, asked for this relative gap."""
    # The time limit only keeps a solver that stalls from holding up the suite.
    defaults = {"tol": loss_units(case, relative), "max_passes": 200_000, "random_state": 0}
    defaults |= {"max_seconds": 120.0}
    defaults |= {"rescaling": case.rescaling}
    svm = mm.StructuralSVM(built_in(case), C=case.C, solver=solver, **(defaults | settings))
    return svm.fit(case.X, case.Y, sample_weight=case.sample_weight)


def quietly(call: Callable[[], Any]) -> Any:
    """The result of a call that may run out of passes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call()


def multipliers_of(case: Case, support: Any) -> list[np.ndarray]:
    """The stored multipliers over the enumerated outputs of a case with a built-in model."""
    totals = [np.zeros(len(block.offsets)) for block in case.blocks]
    if case.kind == "grammar":
        return multipliers_of_trees(case, support, totals)
    labels, place = np.asarray(support.outputs).ravel().tolist(), 0
    classes = case.truth.classes
    for i, a in zip(support.blocks, support.multipliers, strict=True):
        length = 1 if case.kind in FLAT else len(case.Y[i])
        output = tuple(classes[code] for code in labels[place : place + length])
        output = output[0] if case.kind in FLAT else output
        totals[i][case.blocks[i].outputs.index(output)] += a
        place += length
    assert place == len(labels)
    if support.partial:  # blocks that are not mentioned have all of their mass on the true output
        for total, block, y, budget in zip(totals, case.blocks, case.Y, case.budgets, strict=True):
            truth = y if case.kind in FLAT else tuple(y)
            if not total.any():
                total[block.outputs.index(truth)] = budget
    return totals


def multipliers_of_trees(case: Case, support: Any, totals: list[np.ndarray]) -> list[np.ndarray]:
    """The same for trees, which are kept as derivations in numbers."""
    model = built_in(case)
    model.initialize(case.X, case.Y)
    examples, place = model.bind(case.X, case.Y), 0
    for i, a in zip(support.blocks, support.multipliers, strict=True):
        size = 3 * (2 * len(case.X[i]) - 1)
        tree = examples.tree(i, support.outputs[place : place + size])
        totals[i][case.blocks[i].outputs.index(tree)] += a
        place += size
    assert place == len(support.outputs)
    return totals


def assert_dual_by_definition(case: Case, svm: Any) -> None:
    """The multipliers are feasible and give the certificate's dual."""
    multipliers = multipliers_of(case, svm.support_)
    for a, budget in zip(multipliers, case.budgets, strict=True):
        assert (a >= 0).all()
        assert a.sum() == pytest.approx(budget, rel=1e-8, abs=1e-300)
    dual = dual_objective(case.blocks, multipliers)
    assert svm.certificate_.dual == pytest.approx(dual, rel=1e-8, abs=1e-12)
    assert svm.certificate_.support == len(svm.support_.blocks)


def assert_truthful(case: Case, svm: Any) -> None:
    """The certificate by definition: primal of coef_, units of the gap, and the bracket."""
    certificate, optimum = svm.certificate_, case.optimum
    primal = primal_objective(case.blocks, case.budgets, np.asarray(svm.coef_))
    total = float(case.budgets.sum())
    assert certificate.primal == pytest.approx(primal, rel=1e-8)
    assert certificate.gap == pytest.approx(
        (certificate.primal - certificate.dual) / total, rel=1e-8, abs=1e-12
    )
    assert certificate.dual <= optimum.primal * (1 + 1e-9)
    assert certificate.primal >= optimum.dual * (1 - 1e-9)
    assert certificate.converged == (certificate.gap <= certificate.tol)
    if hasattr(svm.model_, "classes_"):  # a built-in model keeps outputs that can be read
        assert_dual_by_definition(case, svm)


def assert_optimal(case: Case, svm: Any, relative: float = 1e-6) -> None:
    """Primal and dual are the optimum of the dense QP, and training ended because of that."""
    assert svm.certificate_.converged
    assert "solved" in str(svm.certificate_.status)
    assert svm.certificate_.passes < 0.9 * svm.max_passes
    assert svm.max_seconds is None or svm.certificate_.seconds < 0.9 * svm.max_seconds
    assert svm.certificate_.exact
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=relative)
    assert svm.certificate_.dual == pytest.approx(case.optimum.value, rel=relative)


@contextlib.contextmanager
def refusal(*patterns: str, kinds: tuple = (ValueError, TypeError)) -> Iterator[None]:
    """The block must raise, and the message must match every pattern (case does not matter)."""
    with pytest.raises(kinds) as caught:
        yield
    message = str(caught.value)
    for pattern in patterns:
        assert re.search(pattern, message, re.IGNORECASE), f"{pattern!r} not in: {message}"
