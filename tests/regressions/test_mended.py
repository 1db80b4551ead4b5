"""Regression tests for bugs that were fixed."""

import copy
import enum
import os
import pickle
import stat
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from helpers import fit, quietly
from maxmargin import models, solvers
from maxmargin.data.synthetic import random_chains, random_multiclass
from maxmargin.io.model_file import read, write
from maxmargin.models.constraints import AtLeast, AtMost, Forbidden
from maxmargin.problem import Support
from reference.cases import chain_case
from reference.problems import make_case
from reference.python_chain import PythonChain, PythonMulticlass

pandas = pytest.importorskip("pandas")


def test_fasole_in_single_precision_certifies_its_own_w():
    for seed in range(10):
        X, Y = random_chains(20, 4, 5, random_state=seed)
        svm = mm.StructuralSVM(models.Chain(), C=0.3, solver=solvers.Fasole(precision="single"))
        svm.fit(X, Y)
        own = mm.objective(svm, svm.coef_, X, Y)
        assert svm.certificate_.primal == pytest.approx(own, rel=1e-9)


def test_fasole_does_not_visit_the_same_blocks_again_and_again_on_the_way_to_rounding():
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    # It took 29 and 16 passes when the reduced problem was solved roughly to the end.
    for intercept in (True, False):
        svm = mm.MulticlassSVC(fit_intercept=intercept, solver="fasole", random_state=0).fit(X, y)
        assert svm.certificate_.passes < 13
        assert svm.certificate_.gap - svm.certificate_.rounding_gap < 1e-12


@pytest.mark.parametrize("C", [0.1, 0.3])
def test_fasole_goes_to_rounding_where_the_dual_no_longer_shows_it(C):
    # It took 65 and 116 passes when a sweep counted as no progress if rounding hid its gain in the dual.
    svm = mm.MulticlassSVC(C=C, solver="fasole", random_state=0).fit(*load_iris(return_X_y=True))
    assert svm.certificate_.passes < 20
    assert svm.certificate_.gap - svm.certificate_.rounding_gap < 1e-12


def test_weights_of_a_wrong_length_are_refused():
    X, Y = random_chains(5, 3, 4, random_state=0)
    model = models.Chain()
    model.initialize(X, Y)
    with pytest.raises(ValueError, match="3 weights"):
        model.inference(X[0], np.zeros(3))


def test_a_failed_refit_leaves_the_fitted_estimator_as_it_was():
    X, y = random_multiclass(30, 3, 4, random_state=0)
    svm = mm.StructuralSVM(models.Multiclass()).fit(X, y)
    before = svm.predict(X)
    with pytest.raises(ValueError, match="sample_weight"):
        svm.fit(X, np.arange(30) % 6, sample_weight=-np.ones(30))
    np.testing.assert_array_equal(svm.predict(X), before)


def test_warm_start_of_a_python_model_refuses_other_examples(generator):
    X, y = generator.normal(size=(12, 5)), np.arange(12) % 3
    costs = 1.0 - np.eye(3)
    svm = mm.StructuralSVM(PythonMulticlass(costs), warm_start=True, tol=1e-2).fit(X, y)
    svm.fit(X, y)
    with pytest.raises(ValueError, match="warm_start"):
        svm.fit(1.1 * X, y)
    with pytest.raises(ValueError, match="warm_start"):
        svm.fit(X[:, :2], y)
    with pytest.raises(ValueError, match="warm_start"):
        svm.set_params(rescaling="slack").fit(X, y)


def test_gap_sampling_in_batches_draws_a_block_twice_without_harm(generator):
    class Batched(PythonChain):
        def batch_loss_augmented_inference(self, X, Y, w):
            return [self.loss_augmented_inference(x, y, w) for x, y in zip(X, Y, strict=True)]

    case = chain_case(generator, n=6, lengths=(2, 3), n_classes=3)
    solver = solvers.BCFW(gap_sampling=True, pairwise=True)
    svm = mm.StructuralSVM(Batched(3), C=case.C, solver=solver, tol=1e-6, max_passes=5000)
    svm.fit(case.X, case.Y)
    assert svm.certificate_.primal == pytest.approx(case.optimum.value, rel=1e-4)


def test_more_threads_than_the_machine_has_are_no_trouble():
    X, Y = random_chains(400, 3, 4, random_state=0)
    svm = mm.StructuralSVM(models.Chain(), C=0.1, n_jobs=300, tol=1e-2).fit(X, Y)
    assert svm.certificate_.converged


def test_a_file_with_costs_of_a_wrong_shape_is_refused(tmp_path):
    X, y = random_multiclass(30, 3, 4, random_state=0)
    path = tmp_path / "model"
    mm.StructuralSVM(models.Multiclass()).fit(X, y).save(path)
    header, arrays = read(path)
    for change in ({"cost": np.zeros((1, 1))}, {"w": arrays["w"].astype(np.float32)}):
        write(path, header, {**arrays, **change})
        with pytest.raises(mm.ModelFileError, match="damaged"):
            mm.load(path)


def test_interrupted_subgradient_is_truthful(generator):
    class Impatient(PythonChain):
        calls = 0

        def loss_augmented_inference(self, x, y, w):
            self.calls += 1
            if self.calls == 27:  # in the middle of a pass over 6 examples
                raise KeyboardInterrupt
            return super().loss_augmented_inference(x, y, w)

    case = chain_case(generator, n=6, lengths=(2, 3), n_classes=3)
    svm = mm.StructuralSVM(Impatient(3), solver="subgradient", tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        svm.fit(case.X, case.Y)
    assert svm.certificate_.dual <= case.optimum.primal
    assert svm.certificate_.primal >= case.optimum.dual
    assert len({len(column) for column in svm.history_.values()}) == 1


def test_series_are_read_by_position(generator):
    X, Y = random_chains(20, 3, 4, random_state=0)
    order = generator.permutation(20)
    frame = pandas.DataFrame({"x": X, "y": Y}).iloc[order]
    svm = mm.StructuralSVM(models.Chain(), C=0.1, random_state=0)
    listed = svm.fit([X[i] for i in order], [Y[i] for i in order]).certificate_.primal
    assert svm.fit(frame["x"], frame["y"]).certificate_.primal == listed
    assert svm.score(frame["x"], frame["y"]) == svm.score(X, Y)


def test_flat_labels_that_have_a_length_count_as_one():
    X, y = random_multiclass(40, 3, 4, random_state=0)
    pairs = [("a", int(k)) for k in y]
    svm = mm.StructuralSVM(models.Multiclass(), C=0.1).fit(X, pairs)
    right = np.mean([a == b for a, b in zip(svm.predict(X), pairs, strict=True)])
    assert svm.score(X, pairs) == right


def test_chains_of_letters_can_be_strings():
    X = [np.eye(2)[[0, 1, 0]], np.eye(2)[[1, 0, 1]]]
    svm = mm.StructuralSVM(models.Chain(), C=10.0, tol=1e-2).fit(X, ["aba", "bab"])
    assert svm.score(X, ["aba", "bab"]) == 1.0
    assert svm.loss(X, ["aba", "bab"]) == 0.0


class Tag(str, enum.Enum):
    NOUN = "n"
    VERB = "v"


@pytest.mark.parametrize(
    "labels", [list(Tag), [np.datetime64("2020-01-01"), np.datetime64("2021-01-01")]]
)
def test_labels_of_unusual_types(labels):
    X = np.array([[1.0, 0.0], [0.0, 1.0]] * 4)
    y = labels * 4
    svm = mm.StructuralSVM(models.Multiclass(), C=10.0).fit(X, y)
    assert svm.score(X, y) == 1.0


def test_objective_knows_class_and_node_weights():
    X, y = random_multiclass(40, 3, 4, random_state=0)
    svc = mm.MulticlassSVC(class_weight={0: 1.0, 1: 2.0, 2: 5.0}).fit(X, y)
    assert mm.objective(svc, svc.w_, X, y) == pytest.approx(svc.certificate_.primal)
    X, Y = random_chains(10, 3, 4, random_state=0)
    nodes = [np.linspace(0.5, 2.0, len(y)) for y in Y]
    svm = mm.StructuralSVM(models.Chain()).fit(X, Y, node_weight=nodes)
    assert mm.objective(svm, svm.coef_, X, Y, node_weight=nodes) == pytest.approx(
        svm.certificate_.primal
    )


def test_parameters_of_numpy_types_can_be_saved(tmp_path):
    X, y = random_multiclass(30, 3, 4, random_state=0)
    path = tmp_path / "model"
    mm.StructuralSVM(models.Multiclass(bias=np.float32(1.0)), C=np.int64(1)).fit(X, y).save(path)
    assert mm.load(path).C == 1
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_save_replaces_no_special_file(tmp_path):
    X, y = random_multiclass(30, 3, 4, random_state=0)
    svm = mm.StructuralSVM(models.Multiclass()).fit(X, y)
    with pytest.raises(ValueError, match="regular"):
        svm.save(tmp_path)


def test_an_executor_is_shared_by_clones_and_left_out_of_pickles(generator):
    with ThreadPoolExecutor(2) as executor:
        svm = mm.StructuralSVM(PythonMulticlass(1.0 - np.eye(3)), n_jobs=executor, tol=1e-2)
        assert clone(svm).n_jobs is executor
        X, y = generator.normal(size=(12, 3)), np.arange(12) % 3
        svm.fit(X, y)
        assert pickle.loads(pickle.dumps(svm)).n_jobs is None


def test_weights_that_overflow_are_refused():
    X, y = random_multiclass(30, 3, 4, random_state=0)
    with pytest.raises(ValueError, match="finite"):
        mm.StructuralSVM(models.Multiclass(), C=1e308).fit(X, y, sample_weight=np.full(30, 1e10))
    weights = np.ones(30)
    weights[3] = np.inf
    with pytest.raises(ValueError, match=r"sample_weight\[3\]"):
        mm.StructuralSVM(models.Multiclass()).fit(X, y, sample_weight=weights)


def test_masked_arrays_are_refused():
    X, y = random_multiclass(30, 3, 4, random_state=0)
    with pytest.raises(ValueError, match="masked"):
        mm.StructuralSVM(models.Chain()).fit([np.ma.masked_greater(X, 0.5)], [y])


def test_fasole_hears_of_the_time_limit():
    X, y = random_multiclass(3000, 5, 40, random_state=0)
    svm = mm.StructuralSVM(
        models.Multiclass(),
        C=100.0,
        solver=solvers.Fasole(max_sweeps=5),
        tol=1e-12,
        max_seconds=0.05,
    )
    quietly(lambda: svm.fit(X, y))
    assert svm.certificate_.status == "time limit"


def test_a_column_of_labels_is_refused_with_its_shape():
    X, y = random_multiclass(30, 3, 4, random_state=0)
    with pytest.raises(ValueError, match=r"Y .*\(30, 1\)"):
        mm.StructuralSVM(models.Multiclass()).fit(X, np.asarray(y)[:, None])


def test_a_polished_fit_that_meets_the_pass_limit_is_called_solved():
    X, y = random_multiclass(60, 3, 4, random_state=0)
    svc = mm.MulticlassSVC(tol=0.5, max_passes=4).fit(X, y)
    assert svc.certificate_.converged
    assert svc.certificate_.status == "solved"


def test_proximal_that_stands_still_is_certified_again():
    # An early exact pass had lowered the threshold so far that the estimate never reached it.
    case = make_case("grammar-zero-one", 1)
    svm = fit(case, "proximal", max_passes=1000)
    assert svm.certificate_.status == "solved"
    assert svm.certificate_.passes < 200


def test_a_row_of_labels_is_not_taken_for_a_set_in_chunks(generator):
    X, Y = generator.normal(size=(6, 3)), generator.integers(2, size=(6, 3))
    names = [[f"label {k}" for k in np.flatnonzero(y)] for y in Y]
    classes = [f"label {k}" for k in range(3)]
    rows, sets = (
        mm.StructuralSVM(
            models.MultiLabel(classes=classes), solver=solver, tol=1e-6, random_state=0
        )
        for solver in [mm.solvers.Streaming(passes=None)] * 2
    )
    rows.fit([(X[i : i + 1], Y[i : i + 1]) for i in range(6)])
    sets.fit([(X[i : i + 1], names[i : i + 1]) for i in range(6)])
    np.testing.assert_array_equal(rows.coef_, sets.coef_)
    assert sets.predict(X[:1])[0] == tuple(np.array(classes)[rows.predict(X[:1])[0] == 1])
    with pytest.raises(ValueError, match=r"Y\[0\] names a label twice"):
        mm.StructuralSVM(models.MultiLabel()).fit(X, [[0, 1, 1]] * 6)


@pytest.mark.parametrize("solver", ["auto", "sdcd", "one-slack", "n-slack"])
def test_the_summed_error_of_parts_is_refused_early(generator, solver):
    with pytest.raises(
        ValueError, match="hinge='sum' is not supported for models of the kind Tree"
    ):
        maps = generator.normal(size=(2, 3, 3, 2))
        mm.StructuralSVM(models.Tree(), hinge="sum", solver=solver).fit(
            maps, [[(0, 0), (1, 1)]] * 2
        )


def test_gdmm_goes_on_with_other_weights_and_others_refuse_its_marginals(generator):
    X = [(generator.normal(size=(3, 2)), [[0, 1], [1, 2]]) for _ in range(5)]
    Y = [[0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 1]]
    svm = mm.StructuralSVM(models.FactorGraph(), C=0.4, solver="gdmm", tol=0.01, warm_start=True)
    svm.fit(X, Y).set_params(C=0.5).fit(X, Y)
    assert svm.certificate_.converged
    for other in ("one-slack", "n-slack", "proximal", "sda"):
        with pytest.raises(ValueError, match="kept marginals"):
            svm.set_params(solver=other).fit(X, Y)


def test_a_fitted_grammar_is_pickled_and_copied():
    X, Y = [["a", "b"], ["b", "a"]], ["(S (A a) (B b))", "(S (B b) (A a))"]
    svm = mm.StructuralSVM(models.Grammar(rare=0)).fit(X, Y)
    for twin in (pickle.loads(pickle.dumps(svm)), copy.deepcopy(svm)):
        assert twin.predict(X) == svm.predict(X)


def test_later_chunks_are_not_rounded_to_the_type_of_the_first(generator):
    X, y = generator.normal(size=(12, 2)), np.arange(12) % 2
    svm = mm.StructuralSVM(models.Multiclass()).partial_fit(X[:6].astype(np.float32), y[:6])
    with pytest.raises(ValueError, match=r"float64.*float32.*rounded"):
        svm.partial_fit(X[6:], y[6:])


def test_constraints_with_unknown_labels_are_refused(generator):
    X = [(generator.normal(size=(3, 2)), [[0, 1], [1, 2]]) for _ in range(4)]
    Y = [["sky", "road", "sky"]] * 2 + [["road", "road", "sky"]] * 2
    svm = mm.StructuralSVM(models.FactorGraph(), tol=0.1).fit(X, Y)
    for wrong in (AtMost(0, "skyy"), AtLeast(1, "skyy"), Forbidden("skyy", "road")):
        with pytest.raises(ValueError, match="no node has a label 'skyy'"):
            svm.predict(X, constraints=[wrong])
    (y, *_) = svm.predict(X, constraints=[AtLeast(1, "road", nodes=[0, 0])])
    assert y[0] == "road"


def test_an_empty_set_of_multipliers_is_rescaled():
    support = Support(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int32), partial=True)
    assert len(support.rescaled(np.ones(3))) == 0


def test_chunks_may_be_lists_and_data_frames(generator):
    pandas = pytest.importorskip("pandas")
    X = generator.normal(size=(40, 3))
    y = (X @ generator.normal(size=(3, 3))).argmax(axis=1)
    y[:3] = y[20:23] = range(3)  # either chunk, as the first, names all classes
    frame = pandas.DataFrame(X[20:], index=range(100, 120))
    labels = pandas.Series(y[20:], index=frame.index)
    options = {"C": 0.1, "solver": solvers.Streaming(passes=None), "tol": 1e-3}
    plain = mm.StructuralSVM(models.Multiclass(), **options).fit(
        [(X[:20], y[:20]), (X[20:], y[20:])]
    )
    for second in ((frame, labels), (X[20:].tolist(), y[20:].tolist())):
        for chunks in ([(X[:20], y[:20]), second], [second, (X[:20], y[:20])]):
            svm = mm.StructuralSVM(models.Multiclass(), **options).fit(chunks)
            assert svm.certificate_.primal == pytest.approx(plain.certificate_.primal, abs=4e-3)
    with pytest.raises(ValueError, match="this chunk is sparse"):
        svm.fit([(X[:20], y[:20]), (scipy.sparse.csr_matrix(X[20:]), y[20:])])


def test_a_model_file_keeps_given_classes_and_solver_options(generator, tmp_path):
    X, y = generator.normal(size=(12, 2)), np.arange(12) % 2
    solver = solvers.Proximal(momentum=0.25)
    model = models.Multiclass(classes=[0, 1, 2])
    mm.StructuralSVM(model, solver=solver, tol=0.1).fit(X, y).save(tmp_path / "a.mm")
    svm = mm.load(tmp_path / "a.mm")
    assert svm.solver == solver
    assert svm.solver_ == "proximal"
    np.testing.assert_array_equal(svm.model.classes, [0, 1, 2])
    assert clone(svm).fit(X, y).coef_.shape == svm.coef_.shape
    mm.StructuralSVM(models.Multiclass()).fit(X, y).save(tmp_path / "b.mm")
    assert mm.load(tmp_path / "b.mm").model.classes is None


def test_climbs_of_a_face_keep_the_masses_of_blocks():
    """Rounding of long steps took a block 1.4e-9 away from its mass: the dual was -inf."""
    X = [
        [0.010435747629989294, -8.694275987083984, 0.0006247181425477501],
        [-0.00020943706122135801, -1.1073527319020622, -0.0019165382834637683],
        [0.003941014497165964, 0.5896024168325672, -0.001019444021026584],
        [-0.01071794431377203, -12.696124578529215, -0.00021342805799716473],
        [-0.007130787278235148, 13.584326888562652, 0.0020008997821690825],
        [-0.02484890903576813, -9.042244524424838, -0.0008560437440601632],
    ]
    weights = [2.5541078155945223, 0.0, 22.315334620160417]
    weights += [0.2899761167485724, 21.173681639724997, 0.0001778295594826816]
    settings = {"C": 0.000928481821966663, "tol": 1.5181581139340664e-09, "max_passes": 30}
    svm = mm.StructuralSVM(models.Multiclass(), solver="proximal", random_state=0, **settings)
    svm.fit(X, [0, 1, 2, 3, 1, 3], sample_weight=weights)
    assert svm.certificate_.converged
    sums = np.bincount(svm.support_.blocks, svm.support_.multipliers, 6)
    np.testing.assert_allclose(sums, settings["C"] * np.array(weights), rtol=1e-13)
