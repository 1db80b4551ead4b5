"""Kernels on pairs of input and output give the same machines as models of known structure."""

import pickle
from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp

import maxmargin as mm
from helpers import quietly, refusal
from maxmargin import models
from maxmargin.models.joint_kernel import FeatureCache, position
from reference.cases import chain_case, fresh, multiclass_case

GAMMA = 0.4


class Labels:
    """K((x, y), (x', y')) = k(x, x') [y = y']."""

    def __init__(self, n_classes=3):
        self.n_classes = n_classes

    def outputs(self, x):
        return list(range(self.n_classes))

    def loss(self, y, y_hat):
        return float(y != y_hat)

    def joint_kernel(self, x, y, x2, y2):
        return np.exp(-GAMMA * np.sum((x - x2) ** 2)) * (y == y2)


class Tags:
    """The kernel of a chain: positions with equal labels, and equal transitions."""

    n_classes = 2

    def outputs(self, x):
        return [np.array(y) for y in product(range(self.n_classes), repeat=len(x))]

    def loss(self, y, y_hat):
        return float(np.sum(np.asarray(y) != np.asarray(y_hat)))

    def joint_kernel(self, x, y, x2, y2):
        gaps = ((x[:, None] - x2[None]) ** 2).sum(axis=2)
        unary = np.sum(np.exp(-GAMMA * gaps) * (np.asarray(y)[:, None] == np.asarray(y2)[None]))
        return unary + sum(a == b for a in pairwise(y) for b in pairwise(y2))


def fitted(model, X, Y, **settings):
    defaults = {
        "C": 1.0,
        "tol": 1e-6,
        "max_passes": 50_000,
        "max_seconds": 120.0,
        "random_state": 0,
    }
    return mm.StructuralSVM(model, **(defaults | settings)).fit(X, Y)


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("solver", ["auto", "one-slack", "fasole"])
def test_labels_are_a_multiclass_machine(seed, rescaling, solver):
    case = multiclass_case(fresh(seed, 90), n=14)
    joint = fitted(models.JointKernel(Labels()), case.X, case.Y, rescaling=rescaling, solver=solver)
    flat = fitted(
        models.Kernel(models.Multiclass(), "rbf", gamma=GAMMA), case.X, case.Y, rescaling=rescaling
    )
    assert joint.certificate_.converged and joint.certificate_.exact
    assert joint.certificate_.primal == pytest.approx(flat.certificate_.primal, rel=1e-5)
    assert joint.certificate_.dual == pytest.approx(flat.certificate_.dual, rel=1e-5)
    assert list(joint.predict(case.X)) == list(flat.predict(case.X))
    again = mm.certify(joint, case.X, case.Y)
    assert again.primal == pytest.approx(joint.certificate_.primal, rel=1e-9)
    assert again.dual == pytest.approx(joint.certificate_.dual, rel=1e-9)


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_tags_are_a_chain(seed, rescaling):
    case = chain_case(fresh(seed, 91), n=5, lengths=(3, 2, 1), n_classes=2)
    joint = fitted(models.JointKernel(Tags()), case.X, case.Y, rescaling=rescaling)
    chain = fitted(
        models.Kernel(models.Chain(), "rbf", gamma=GAMMA), case.X, case.Y, rescaling=rescaling
    )
    assert joint.certificate_.primal == pytest.approx(chain.certificate_.primal, rel=1e-5)
    assert joint.certificate_.dual == pytest.approx(chain.certificate_.dual, rel=1e-5)
    assert joint.score(case.X, case.Y) == pytest.approx(chain.score(case.X, case.Y), abs=0.11)


@pytest.mark.parametrize("basis", ["greedy", "random"])
def test_more_pairs_leave_out_less_and_all_pairs_nothing(seed, basis):
    case = multiclass_case(fresh(seed, 92), n=10)
    exact = fitted(models.JointKernel(Labels()), case.X, case.Y, tol=1e-7)
    left, bounds = [], []
    for rank in (3, 12, 30):
        model = models.JointKernel(Labels(), rank=rank, basis=basis, random_state=0)
        svm = quietly(lambda model=model: fitted(model, case.X, case.Y, tol=1e-7))
        assert svm.model_.size_joint_feature == rank
        left.append(svm.model_.basis_.residual)
        bounds.append(svm.certificate_.primal)
    assert left[0] > left[1] > left[2] and left[2] <= 1e-8
    # The optimum over a subspace is not below the optimum over the whole space.
    assert min(bounds) >= exact.certificate_.dual - 1e-9
    assert bounds[2] == pytest.approx(exact.certificate_.primal, rel=1e-5)


def test_inputs_of_any_kind_and_threads(seed):
    case = multiclass_case(fresh(seed, 93), n=8)

    class Sparse(Labels):
        def joint_kernel(self, x, y, x2, y2):
            return float((x @ x2.T).sum()) * (y == y2)

    dense = fitted(models.Kernel(models.Multiclass(), "linear"), case.X, case.Y)
    for X in (sp.csr_matrix(case.X), [row[None, :] for row in case.X]):
        for jobs in (1, 2):
            joint = fitted(models.JointKernel(Sparse()), X, case.Y, n_jobs=jobs)
            assert joint.certificate_.primal == pytest.approx(dense.certificate_.primal, rel=1e-4)


def test_features_have_the_kernel_as_product(seed):
    case = multiclass_case(fresh(seed, 94), n=7)
    model = models.JointKernel(Labels())
    model.initialize(case.X, case.Y)
    pairs = [(x, y) for x in case.X for y in range(3)]
    psi = np.array([model.joint_feature(x, y) for x, y in pairs])
    K = [[Labels().joint_kernel(*a, *b) for b in pairs] for a in pairs]
    np.testing.assert_allclose(psi @ psi.T, K, atol=1e-7)


def test_check_model_and_k_best(seed):
    case = multiclass_case(fresh(seed, 95), n=7)
    mm.check_model(models.JointKernel(Labels(), rank=9), case.X, case.Y)
    svm = fitted(models.JointKernel(Labels()), case.X, case.Y)
    for x, best in zip(case.X, svm.predict_k_best(case.X, 3), strict=True):
        assert best[0][0] == svm.predict([x])[0] and len(best) == 3


def test_small_cache_changes_nothing(seed):
    case = multiclass_case(fresh(seed, 96), n=7)
    large = fitted(models.JointKernel(Labels()), case.X, case.Y, tol=1e-3)
    small = fitted(models.JointKernel(Labels(), cache_bytes=3 * 8 * 21), case.X, case.Y, tol=1e-3)
    np.testing.assert_array_equal(small.coef_, large.coef_)
    assert small.model_._known.bytes <= 3 * 8 * 21


def test_cache_keeps_the_latest_within_its_bytes():
    cache = FeatureCache(100)
    inputs = [np.full(2, float(i)) for i in range(5)]
    for x in inputs:
        cache.keep(x, [x], np.zeros(5))
        assert cache.bytes <= 100
    assert cache.find(inputs[0].copy()) is None and cache.find(inputs[4].copy()) is not None
    cache.keep(np.ones(3), [], np.zeros(50))
    assert cache.find(np.ones(3)) is None
    assert pickle.loads(pickle.dumps(cache)).known == {}


def test_equal_outputs_are_found():
    outputs = [np.array([0, 1]), np.array([1, 1]), (2, 2)]
    assert position(outputs, outputs[1]) == 1
    assert position(outputs, [0, 1]) == 0
    assert position(outputs, (3, 3)) is None


def test_what_is_refused(seed, tmp_path):
    case = multiclass_case(fresh(seed, 98), n=7)

    class Bad(Labels):
        def joint_kernel(self, x, y, x2, y2):
            return -super().joint_kernel(x, y, x2, y2)

    with refusal("positive semidefinite"):
        fitted(models.JointKernel(Bad()), case.X, case.Y)
    with refusal("lacks joint_kernel, outputs, loss"):
        fitted(models.JointKernel(object()), case.X, case.Y)
    with refusal(r"Y\[1\]", "not among the outputs"):
        fitted(models.JointKernel(Labels(1)), case.X, [0, 1, 0, 0, 0, 0, 0])
    with refusal("rank", "21", "22"):
        fitted(models.JointKernel(Labels(), rank=22), case.X, case.Y)
    with refusal("basis", "'all'"):
        fitted(models.JointKernel(Labels(), basis="all"), case.X, case.Y)
    svm = fitted(models.JointKernel(Labels()), case.X, case.Y, tol=1e-2)
    with refusal("save", "JointKernel"):
        svm.save(tmp_path / "m.safetensors")


class Cells:
    """A joint kernel on two classes of sparse matrices."""

    def outputs(self, x):
        return [0, 1]

    def loss(self, y, y_hat):
        return float(y != y_hat)

    def joint_kernel(self, x, y, x2, y2):
        return float(x.multiply(x2).sum()) * (y == y2)


def test_sparse_inputs_that_differ_in_their_rows_only():
    X = [sp.csr_matrix([[1.0, 0.0], [0.0, 0.0]]), sp.csr_matrix([[0.0, 0.0], [1.0, 0.0]])]
    svm = mm.StructuralSVM(models.JointKernel(Cells()), C=10.0).fit(X, [0, 1])
    assert list(svm.predict(X)) == [0, 1]
    assert svm.certificate_.primal == pytest.approx(0.5, rel=1e-2)


def test_many_pairs_need_a_rank():
    X = [sp.csr_matrix([[float(i)]]) for i in range(2100)]
    with refusal("4200", "rank"):
        mm.StructuralSVM(models.JointKernel(Cells())).fit(X, [0, 1] * 1050)
