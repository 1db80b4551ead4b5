"""Helpers of all suites: models of cases, solvers by name, fits to a relative gap."""

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
from maxmargin.models import Model
from reference.box_qp import solve_summed, summed_primal
from reference.cases import Case
from reference.dense_qp import Optimum, dual_objective, primal_objective
from reference.enumerate import with_bias
from reference.python_chain import PythonBinary, PythonChain, PythonMulticlass

# Solvers with pair steps: they must reach the optimum to any accuracy.
EXACT: dict[str, Callable[[], Any]] = {
    "auto": lambda: "auto",
    "proximal": lambda: "proximal",
    "fasole": lambda: "fasole",
    "fasole-printed": lambda: solvers.Fasole(reduced="printed"),
    "fasole-sweeps": lambda: solvers.Fasole(reduced="sweeps", order="random"),
    "fasole-mvp": lambda: solvers.Fasole(rule="mvp"),
    "fasole-plain": lambda: solvers.Fasole(reduced="printed", accelerated=False, keep=0),
    "fasole-careful": lambda: solvers.Fasole(care=0.2),
    "sda": lambda: "sda",
    "sdm": lambda: "sdm",
    "dual-coordinate": lambda: "dual-coordinate",
    "dual-coordinate-all": lambda: solvers.DualCoordinate(shrinking=False),
    "dual-coordinate-pruned": lambda: solvers.DualCoordinate(prune=True, order="cyclic"),
    "one-slack": lambda: "one-slack",
    "n-slack": lambda: "n-slack",
    "n-slack-printed": lambda: solvers.NSlack(batch=1, growing=False, keep=0),
    "n-slack-pruned": lambda: solvers.NSlack(batch=3, keep=1),
    "streaming-cyclic": lambda: solvers.Streaming(passes=None),
    "bcfw-pairwise": lambda: solvers.BCFW(pairwise=True),
    "bcfw-pairwise-gap": lambda: solvers.BCFW(pairwise=True, gap_sampling=True),
}

# Solvers with slow convergence: tests ask them for a rough solution only.
RATED: dict[str, Callable[[], Any]] = {
    "bcfw": lambda: "bcfw",
    "bcfw-gap": lambda: solvers.BCFW(gap_sampling=True),
    "bcfw-average": lambda: solvers.BCFW(averaging=True),
    "bcfw-fixed-step": lambda: solvers.BCFW(line_search=False),
    "streaming": lambda: "streaming",
    "subgradient": lambda: "subgradient",
    "subgradient-last": lambda: solvers.Subgradient(averaging=False),
}

# Solvers of hinge="sum" in addition to the lists above.
SUMMED: dict[str, Callable[[], Any]] = {
    "sdcd": lambda: "sdcd",
    "sdcd-cyclic": lambda: solvers.SDCD(order="cyclic", keep=0, inner=0),
    "one-slack-proximal": lambda: solvers.OneSlack(proximal=True, cache=0),
}

# SDA in file order is in neither list: it may converge well or almost stop.
EVERY = {**EXACT, **RATED, "sda-cyclic": lambda: solvers.SDA(order="cyclic")}


# Solvers of the log loss; tests/contracts/test_crf.py runs them.
SOFT = tuple(name for name, kind in solvers.SOLVERS.items() if kind.formulations[0].soft)

# kinds with one label per example
FLAT = {"multiclass": models.Multiclass, "binary": models.Binary}


def built_in(case: Case) -> Any:
    """Return the package's model for a case."""
    options = case.options
    if case.kind == "grammar":
        return models.Grammar(rare=0, **options)
    if case.kind == "ranking":
        return models.Ranking()
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
    more = {name: options[name] for name in ("edges", "order", "features") if name in options}
    if options["illegal"]:  # illegal pairs name labels, whether or not these occur
        more |= {"classes": case.truth.classes, "transitions": transitions_of(options["illegal"])}
    return models.Chain(loss=loss, bias=options["bias"], **ends, **more)


def transitions_of(illegal: Any) -> Any:
    """Convert illegal pairs of the reference (None marks start and end) into the chain's parameter."""
    return models.Transitions(
        [pair for pair in illegal if None not in pair],
        starts=[b for a, b in illegal if a is None],
        ends=[a for a, b in illegal if b is None],
    )


def prepared(case: Case) -> Any:
    """Return the package's model, initialised with the data of the case."""
    model = built_in(case)
    model.initialize(case.X, case.Y)
    return model


def as_python(case: Case) -> tuple[Any, list]:
    """Return a Python model for the same problem and its inputs; a bias becomes a constant feature."""
    options = case.options
    X = [with_bias(x, options["bias"]) for x in case.truth.examples(case.X)]
    if case.kind == "multiclass":
        return PythonMulticlass(case.truth.costs), X
    if case.kind == "binary":
        return PythonBinary(case.truth.costs), X
    ends = {"start": options["start"], "end": options["end"]}
    return PythonChain(len(case.truth.classes), case.truth.costs, options["mean"], **ends), X


def optimum_of(case: Case, hinge: str = "max") -> Optimum:
    """Return the proven optimum over all outputs, for the largest violation or for the sum of violations."""
    return case.optimum if hinge == "max" else solve_summed(case.blocks, case.C, case.sample_weight)


def assert_no_chunks(svm: Any, reason: str) -> None:
    """The estimator has no ``partial_fit``, and the cause of the error says which option refuses it."""
    assert not hasattr(svm, "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit") as caught:
        svm.partial_fit([[1.0]], [0])
    assert reason in str(caught.value.__cause__)


def loss_units(case: Case, relative: float, hinge: str = "max") -> float:
    """Return the `tol` that bounds P - D by `relative` times the optimum."""
    return relative * optimum_of(case, hinge).value / float(case.budgets.sum())


def fit(case: Case, solver: Any = "auto", relative: float = 1e-7, **settings: Any) -> Any:
    """Return a StructuralSVM with the built-in model, fitted to this relative gap."""
    tol = settings.pop("tol", None) or loss_units(case, relative, settings.get("hinge", "max"))
    # The time limit only prevents a stalled solver from blocking the suite.
    defaults = {"tol": tol, "max_passes": 200_000, "random_state": 0, "max_seconds": 120.0}
    defaults |= {"rescaling": case.rescaling}
    svm = mm.StructuralSVM(built_in(case), C=case.C, solver=solver, **(defaults | settings))
    return svm.fit(case.X, case.Y, sample_weight=case.sample_weight)


def quietly(call: Callable[[], Any]) -> Any:
    """Return the result of a call, without warnings that it ran out of passes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call()


def multipliers_of(case: Case, support: Any) -> list[np.ndarray]:
    """Return the stored multipliers over the enumerated outputs of a case with a built-in model."""
    totals = [np.zeros(len(block.offsets)) for block in case.blocks]
    codes, place = np.asarray(support.outputs).ravel(), 0
    read = output_reader(case)
    for i, a in zip(support.blocks, support.multipliers, strict=True):
        output, size = read(i, codes[place:])
        totals[i][case.blocks[i].outputs.index(output)] += a
        place += size
    assert place == len(codes)
    if support.partial:  # a block without multipliers has all its mass on the true output
        for total, block, y, budget in zip(totals, case.blocks, case.Y, case.budgets, strict=True):
            truth = y if case.kind in FLAT else getattr(case.truth, "true_output", tuple)(y)
            if not total.any():
                total[block.outputs.index(truth)] = budget
    return totals


def output_reader(case: Case) -> Callable[[int, np.ndarray], tuple[Any, int]]:
    """Return a function that decodes the first output of example i and counts its stored numbers."""
    if case.kind == "grammar":  # derivations: three numbers for each of 2 n - 1 steps
        model = built_in(case)
        model.initialize(case.X, case.Y)
        examples, sizes = model.bind(case.X, case.Y), [3 * (2 * len(x) - 1) for x in case.X]
        return lambda i, codes: (examples.tree(i, codes[: sizes[i]]), sizes[i])
    if case.kind == "tree":  # positions in the grid, row by row
        parts, columns = len(case.Y[0]), [x.shape[1] for x in case.X]
        return lambda i, codes: (
            tuple(divmod(int(code), columns[i]) for code in codes[:parts]),
            parts,
        )
    classes = getattr(case.truth, "classes", (0, 1))  # for a label of a set: off and on
    if case.kind in FLAT:
        return lambda i, codes: (classes[codes[0]], 1)
    lengths = [len(y) for y in case.Y]
    return lambda i, codes: (tuple(classes[code] for code in codes[: lengths[i]]), lengths[i])


def assert_dual_by_definition(case: Case, svm: Any) -> None:
    """Assert that the multipliers are feasible and give the certificate's dual."""
    multipliers = multipliers_of(case, svm.support_)
    for a, budget in zip(multipliers, case.budgets, strict=True):
        assert (a >= 0).all()
        if svm.hinge == "sum":
            assert (a <= budget).all()
        else:
            assert a.sum() == pytest.approx(budget, rel=1e-8, abs=1e-300)
    dual = dual_objective(case.blocks, multipliers)
    assert svm.certificate_.dual == pytest.approx(dual, rel=1e-8, abs=1e-12)
    assert svm.certificate_.support == len(svm.support_.blocks)


def assert_truthful(case: Case, svm: Any, searched: bool = False) -> None:
    """Check the certificate by definition: primal of coef_, units of the gap, and the bracket.

    If the argmax is `searched`, the primal is an upper bound of P(w), which may be infinite.
    """
    certificate, optimum = svm.certificate_, optimum_of(case, svm.hinge)
    objective = primal_objective if svm.hinge == "max" else summed_primal
    primal = objective(case.blocks, case.budgets, np.asarray(svm.coef_))
    if searched:
        assert certificate.primal >= primal * (1 - 1e-8)
    else:
        assert certificate.primal == pytest.approx(primal, rel=1e-8)
    assert certificate.gap == pytest.approx(
        (certificate.primal - certificate.dual) / float(case.budgets.sum()), rel=1e-8, abs=1e-12
    )
    assert certificate.dual <= optimum.primal * (1 + 1e-9)
    assert certificate.primal >= optimum.dual * (1 - 1e-9)
    assert certificate.converged == (certificate.gap <= certificate.tol)
    # GDMM and a user's model keep no outputs that can be decoded
    if isinstance(svm.model_, Model) and svm.solver_ != "gdmm":
        assert_dual_by_definition(case, svm)


def assert_optimal(case: Case, svm: Any, relative: float = 1e-6) -> None:
    """Assert that training ended at the optimum of the dense QP, and before any budget."""
    assert svm.certificate_.converged
    assert "solved" in str(svm.certificate_.status)
    assert svm.certificate_.passes < 0.9 * svm.max_passes
    assert svm.max_seconds is None or svm.certificate_.seconds < 0.9 * svm.max_seconds
    assert svm.certificate_.exact
    value = optimum_of(case, svm.hinge).value
    assert svm.certificate_.primal == pytest.approx(value, rel=relative)
    assert svm.certificate_.dual == pytest.approx(value, rel=relative)


@contextlib.contextmanager
def refusal(*patterns: str, kinds: tuple = (ValueError, TypeError)) -> Iterator[None]:
    """Assert that the block raises and that the message matches every pattern, ignoring case."""
    with pytest.raises(kinds) as caught:
        yield
    message = str(caught.value)
    for pattern in patterns:
        assert re.search(pattern, message, re.IGNORECASE), f"{pattern!r} not in: {message}"
