"""Bad parameters, weights, costs and calls in the wrong order; each message names its parameter."""

import numpy as np
import pytest

import maxmargin as mm
from helpers import refusal
from maxmargin import losses, models, solvers


@pytest.fixture
def flat(generator):
    """Return a good multiclass problem."""
    return generator.normal(size=(8, 3)), np.array([0, 1, 2, 0, 1, 2, 0, 1])


@pytest.fixture
def chains(generator):
    """Return a good chain problem: six sequences of lengths 2 and 3."""
    X = [generator.normal(size=(2 + i % 2, 3)) for i in range(6)]
    return X, [list("abc" if i % 3 else "cab")[: len(x)] for i, x in enumerate(X)]


def multiclass(**settings):
    return mm.StructuralSVM(models.Multiclass(), **settings)


def chain(**settings):
    return mm.StructuralSVM(models.Chain(), **settings)


# --- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [0, -1.0, float("nan"), float("inf"), "big", None])
def test_c_must_be_positive_and_finite(flat, C):
    X, y = flat
    for estimator in (multiclass(C=C), mm.MulticlassSVC(C=C)):
        with refusal(r"\bC\b", "positive|> 0", str(C)):
            estimator.fit(X, y)


@pytest.mark.parametrize(
    "name, value",
    [
        ("tol", -1e-3),
        ("tol", float("nan")),
        ("max_passes", 0),
        ("max_passes", -5),
        ("max_seconds", -1.0),
        ("n_jobs", 0),
        ("n_jobs", 1.5),
    ],
)
def test_numbers_out_of_range_name_the_parameter_and_the_value(flat, name, value):
    X, y = flat
    with refusal(rf"\b{name}\b", str(value)):
        multiclass(**{name: value}).fit(X, y)


@pytest.mark.parametrize("estimator", [multiclass, lambda **s: mm.MulticlassSVC(**s)])
def test_unknown_solver_lists_the_solvers(flat, estimator):
    X, y = flat
    with refusal("solver", "newton", "proximal", "fasole", "sda", "sdm", "bcfw", "subgradient"):
        estimator(solver="newton").fit(X, y)


def test_solver_of_a_wrong_type_is_refused(flat):
    X, y = flat
    with refusal("solver", "float|3.5"):
        multiclass(solver=3.5).fit(X, y)


@pytest.mark.parametrize(
    "make, name",
    [
        (lambda: solvers.Proximal(momentum=1.5), "momentum"),
        (lambda: solvers.Proximal(cached_passes=-1), "cached_passes"),
        (lambda: solvers.Proximal(precision="half"), "precision"),
        (lambda: solvers.Fasole(switch=2.0), "switch"),
        (lambda: solvers.Fasole(reduced="never"), "reduced"),
        (lambda: solvers.Fasole(rule="best"), "rule"),
        (lambda: solvers.Fasole(order="sorted"), "order"),
        (lambda: solvers.SDA(order="sorted"), "order"),
        (lambda: solvers.SDM(order="sorted"), "order"),
        (lambda: solvers.BCFW(order="sorted"), "order"),
    ],
)
def test_solver_settings_are_checked(flat, make, name):
    X, y = flat
    with refusal(rf"\b{name}\b"):
        multiclass(solver=make()).fit(X, y)


def test_unknown_loss_lists_the_losses(flat, chains):
    X, y = flat
    with refusal("loss", "hinge-ish", "zero-one"):
        mm.StructuralSVM(models.Multiclass(loss="hinge-ish")).fit(X, y)
    X, Y = chains
    with refusal("loss", "zero-one-ish", "hamming", "mean-hamming"):
        mm.StructuralSVM(models.Chain(loss="zero-one-ish")).fit(X, Y)


class NeverAsked:
    """A model that fails the test if training starts any work with it."""

    size_joint_feature = 2

    def initialize(self, X, Y):
        pass

    def forbidden(self, *arguments):
        raise AssertionError("an oracle was called before the refusal")

    joint_feature = loss = inference = loss_augmented_inference = forbidden


@pytest.mark.parametrize(
    "settings, patterns",
    [
        ({"hinge": "sum", "solver": "proximal"}, ["hinge", "sum", "sdcd", "one-slack", "n-slack"]),
        ({"hinge": "soft"}, ["hinge", "soft", "max"]),
        ({"rescaling": "both"}, ["rescaling", "both", "margin"]),
        ({"nonnegative": [0], "solver": "one-slack"}, ["nonnegative", "sda"]),
    ],
    ids=lambda value: str(value),
)
def test_what_is_not_there_yet_is_refused_before_the_first_pass(settings, patterns):
    X, Y = [np.zeros(1), np.ones(1)], [0, 1]
    with refusal(*patterns, kinds=(ValueError, TypeError, NotImplementedError)):
        mm.StructuralSVM(NeverAsked(), **settings).fit(X, Y)


# --- weights and costs ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, patterns",
    [
        (lambda v: np.where(np.arange(8) == 3, -1.0, v), [r"\b3\b", "negative|>= 0"]),
        (lambda v: np.where(np.arange(8) == 6, np.nan, v), [r"\b6\b|nan"]),
        (lambda v: v[:5], [r"\b5\b", r"\b8\b"]),
        (lambda v: 0 * v, ["zero|positive"]),
        (lambda v: np.ones((8, 2)), ["shape|1-?d|dimension"]),
    ],
    ids=["negative", "nan", "short", "all-zero", "two-dimensional"],
)
def test_sample_weight_is_checked(flat, change, patterns):
    X, y = flat
    with refusal("sample_weight", *patterns):
        multiclass().fit(X, y, sample_weight=change(np.ones(8)))


@pytest.mark.parametrize(
    "change, patterns",
    [
        (lambda nodes: nodes[:3], [r"\b3\b", r"\b6\b"]),
        (lambda nodes: [*nodes[:2], np.ones(7), *nodes[3:]], [r"\b2\b", r"\b7\b"]),
        (lambda nodes: [*nodes[:2], -nodes[2], *nodes[3:]], [r"\b2\b", "negative|>= 0"]),
    ],
    ids=["too-few", "wrong-length", "negative"],
)
def test_node_weight_is_checked(chains, change, patterns):
    X, Y = chains
    with refusal("node_weight", *patterns):
        chain().fit(X, Y, node_weight=change([np.ones(len(y)) for y in Y]))


def spoiled(entry, value):
    costs = 1.0 - np.eye(3)
    costs[entry] = value
    return costs


@pytest.mark.parametrize(
    "costs, patterns",
    [
        (spoiled((0, 2), -0.5), ["negative|>= 0", "0.5"]),
        (spoiled((1, 1), 0.25), ["diagonal", "0.25"]),
        (spoiled((0, 1), np.nan), ["nan|finite"]),
        (np.zeros((3, 2)), [r"\b3\b", r"\b2\b"]),
        (1.0 - np.eye(4), [r"\b4\b", r"\b3\b"]),
    ],
    ids=["negative", "diagonal", "nan", "not-square", "wrong-size"],
)
def test_cost_matrix_is_checked(flat, chains, costs, patterns):
    X, y = flat
    with refusal("loss|cost", *patterns):
        mm.StructuralSVM(models.Multiclass(loss=costs)).fit(X, y)
    X, Y = chains
    with refusal("loss|cost", *patterns):
        mm.StructuralSVM(models.Chain(loss=losses.Hamming(costs=costs))).fit(X, Y)


def test_costs_by_label_are_checked(chains):
    X, Y = chains
    with refusal("cost", r"\['z'\]"):
        mm.StructuralSVM(models.Chain(loss=losses.Hamming(costs={"a": 1.0, "z": 1.0}))).fit(X, Y)
    with refusal("cost", "negative|>= 0"):
        mm.StructuralSVM(models.Chain(loss=losses.Hamming(costs=[1.0, -2.0, 1.0]))).fit(X, Y)
    with refusal("cost", r"\b2\b", r"\b3\b"):
        mm.StructuralSVM(models.Chain(loss=losses.Hamming(costs=[1.0, 2.0]))).fit(X, Y)


def test_class_weight_is_checked(flat):
    X, y = flat
    with refusal("class_weight", "negative|>= 0|positive"):
        mm.MulticlassSVC(class_weight={0: -1.0}).fit(X, y)
    with refusal("class_weight", "heavy"):
        mm.MulticlassSVC(class_weight="heavy").fit(X, y)


# --- use in the wrong order ----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["predict", "score", "loss", "predict_k_best", "save"])
def test_not_fitted_says_so(flat, tmp_path, method):
    from sklearn.exceptions import NotFittedError

    X, y = flat
    arguments = {
        "predict": (X,),
        "predict_k_best": (X, 2),
        "save": (tmp_path / "never",),
    }.get(method, (X, y))
    with pytest.raises(NotFittedError, match="fit"):
        getattr(multiclass(), method)(*arguments)
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("k", [0, -1, 1.5])
def test_k_of_k_best_is_checked(chains, k):
    X, Y = chains
    svm = chain().fit(X, Y)
    with refusal(r"\bk\b", str(k)):
        svm.predict_k_best(X, k)


def test_a_model_without_the_protocol_is_told_what_is_missing(flat):
    X, y = flat

    class Half:
        size_joint_feature = 3

        def initialize(self, X, Y):
            pass

        def joint_feature(self, x, y):
            return np.zeros(3)

    with refusal("Half", "loss_augmented_inference", kinds=(TypeError, ValueError, AttributeError)):
        mm.StructuralSVM(Half()).fit(X, y)


def test_objective_checks_the_size_of_w(flat):
    X, y = flat
    svm = multiclass().fit(X, y)
    with refusal(r"\bw\b", r"\b9\b", r"\b4\b"):
        mm.objective(svm, np.zeros(4), X, y)
