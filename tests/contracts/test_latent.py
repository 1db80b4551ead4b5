"""Hidden parts: rounds never raise the objective, completions are optimal, the certificate is right."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import maxmargin as mm
from helpers import SOFT, refusal
from maxmargin import models, solvers


def mixtures(seed, n=120, layout="dense"):
    """Two classes of two blobs each, placed like XOR, which one weight vector per class cannot separate."""
    generator = np.random.default_rng(seed)
    corners = np.array([[2, 2], [-2, -2], [2, -2], [-2, 2]], dtype=float)
    blob = generator.integers(4, size=n)
    blob[:4] = np.arange(4)
    X = corners[blob] + 0.5 * generator.normal(size=(n, 2))
    X = sparse.csr_matrix(X) if layout == "csr" else X
    return X, np.array(["same", "other"])[blob // 2]


def latent(parts=2, C=0.1, **settings):
    start = settings.pop("start", "k-means")
    model = models.Latent(models.Multiclass(bias=1.0), parts=parts, start=start)
    return mm.LatentSVM(model, **{"C": C, "tol": 1e-4, "random_state": 0, **settings})


def objective_by_definition(svm, w, X, y, weights=None):
    """F(w), with both maxima by enumeration of class and part."""
    X = np.hstack([X.toarray() if sparse.issparse(X) else X, np.ones((X.shape[0], 1))])
    scores = X @ w.reshape(-1, 3).T
    owner = svm.model_.classes_[svm.model_.owner_]
    slacks = [
        np.max((owner != label) + row) - np.max(row[owner == label])
        for row, label in zip(scores, y, strict=True)
    ]
    return 0.5 * w @ w + svm.C * np.dot(np.ones(len(y)) if weights is None else weights, slacks)


class HiddenShift:
    """Two classes; the hidden part h selects which half of x counts. Complete outputs are (y, h)."""

    def initialize(self, X, Y):
        self.d = len(X[0]) // 2
        self.size_joint_feature = 2 * self.d

    def everything(self):
        return [(y, h) for y in (0, 1) for h in (0, 1)]

    def joint_feature(self, x, z):
        y, h = z
        psi = np.zeros((2, self.d))
        psi[y] = x[h * self.d : (h + 1) * self.d]
        return psi.ravel()

    def loss(self, z, z_hat):
        return float(z[0] != z_hat[0])

    def inference(self, x, w):
        return max(self.everything(), key=lambda z: w @ self.joint_feature(x, z))

    def loss_augmented_inference(self, x, z, w):
        return max(self.everything(), key=lambda u: self.loss(z, u) + w @ self.joint_feature(x, u))

    def complete(self, x, y, w):
        return max([(y, 0), (y, 1)], key=lambda z: w @ self.joint_feature(x, z))

    def observed(self, z):
        return z[0]


def hidden_halves(seed, n=40, d=3):
    generator = np.random.default_rng(seed)
    y, half = generator.integers(2, size=n), generator.integers(2, size=n)
    X = generator.normal(size=(n, 2 * d)) * 0.3
    for i in range(n):
        X[i, half[i] * d + y[i]] += 2.0
    return list(X), y.tolist()


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("start", ["k-means", "random"])
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_the_objective_never_rises_and_is_the_definition(seed, layout, start, rescaling):
    X, y = mixtures(seed, layout=layout)
    svm = latent(3, start=start, rescaling=rescaling, round_tol=1e-9).fit(X, y)
    path = svm.objective_path_
    assert len(path) >= 1
    assert (np.diff(path) <= 1e-9 * path[0]).all()
    assert mm.objective(svm, svm.coef_, X, y) == pytest.approx(path[-1], rel=1e-9)
    if rescaling == "margin":
        assert path[-1] == pytest.approx(objective_by_definition(svm, svm.coef_, X, y), rel=1e-9)


@pytest.mark.parametrize("solver", sorted(set(solvers.SOLVERS) - {"gdmm", "sdcd", *SOFT}))
def test_every_solver_serves_the_rounds(seed, solver):
    X, y = mixtures(seed, n=60)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, size=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm = latent(start="random", solver=solver, tol=1e-3, max_passes=200)
        svm.fit(X, y, sample_weight=weights)
    path = svm.objective_path_
    assert (np.diff(path) <= 1e-9 * path[0]).all()
    value = objective_by_definition(svm, svm.coef_, X, y, weights)
    assert path[-1] == pytest.approx(value, rel=1e-9)
    again = mm.certify(svm, X, y, sample_weight=weights)
    assert again.primal == pytest.approx(svm.certificate_.primal, rel=1e-9)
    assert again.dual == pytest.approx(svm.certificate_.dual, rel=1e-9)
    assert path[-1] <= svm.certificate_.primal * (1 + 1e-9)


def test_one_part_is_the_plain_model(seed):
    X, y = mixtures(seed)
    flat = mm.StructuralSVM(models.Multiclass(bias=1.0), C=0.1, tol=1e-8, max_passes=5000).fit(X, y)
    one = latent(1, tol=1e-8, max_passes=5000).fit(X, y)
    assert one.certificate_.primal == pytest.approx(flat.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(one.coef_, flat.coef_, atol=1e-3)
    assert len(one.objective_path_) == 1
    assert list(one.predict(X)) == list(flat.predict(X))


def test_parts_win_where_classes_are_mixtures(seed):
    X, y = mixtures(seed, n=200)
    more, labels = mixtures(seed + 1000, n=200)
    flat = mm.StructuralSVM(models.Multiclass(bias=1.0), C=0.1).fit(X, y)
    parts = latent(2).fit(X, y)
    assert flat.score(more, labels) < 0.85
    assert parts.score(more, labels) > 0.97
    assert parts.loss(more, labels) == pytest.approx(1 - parts.score(more, labels))


def test_parts_for_one_class_only(seed):
    generator = np.random.default_rng(seed)
    y = np.repeat([0, 1], 60)
    # The positive class lies on both sides of the negative one.
    X = generator.normal(size=(120, 2)) * 0.4
    X[y == 1, 0] += np.where(generator.uniform(size=60) < 0.5, 3.0, -3.0)
    svm = latent({1: 2}, C=1.0).fit(X, y)
    assert svm.coef_.shape == (9,)
    assert svm.model_.unpack(svm.coef_)["classes"].tolist() == [0, 1, 1]
    assert svm.score(X, y) > 0.97


def test_completions_are_the_best_parts_of_the_true_class(seed):
    X, y = mixtures(seed)
    svm = latent(3).fit(X, y)
    w = np.random.default_rng(seed).normal(size=svm.coef_.shape)
    chosen = np.array(svm.model_.completions(X, y, w, n_jobs=3))
    scores = np.hstack([X, np.ones((len(y), 1))]) @ w.reshape(-1, 3).T
    for label in svm.classes_:
        rows = np.flatnonzero(svm.model_.classes_[svm.model_.owner_] == label)
        members = y == label
        expected = rows[scores[members][:, rows].argmax(axis=1)]
        np.testing.assert_array_equal(chosen[members], expected)


def test_threads_complete_the_outputs_too(seed, monkeypatch):
    """Threads complete the outputs of rounds and chunks, and give the result of one thread."""
    asked, completer = [], models.Latent.completer

    def spied(self, X, Y, n_jobs=1):
        asked.append(n_jobs)
        return completer(self, X, Y, n_jobs)

    monkeypatch.setattr(models.Latent, "completer", spied)
    X, y = mixtures(seed)
    svm = latent(n_jobs=2, tol=1e-6).fit(X, y)
    assert len(asked) == 1  # one completer for all rounds
    latent(n_jobs=2, solver="streaming").partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    in_chunks = latent(n_jobs=2, solver="streaming")
    in_chunks.fit([(X[:60], y[:60]), (X[60:], y[60:])])
    mm.certify(svm, X, y)
    assert set(asked) == {2}
    alone = latent(tol=1e-6).fit(X, y)
    assert svm.objective_path_[-1] == pytest.approx(alone.objective_path_[-1], rel=1e-4)


def test_the_same_seed_gives_the_same_solution(seed):
    X, y = mixtures(seed)
    for start in ("k-means", "random"):
        left, right = (latent(3, start=start, random_state=seed).fit(X, y) for _ in range(2))
        np.testing.assert_array_equal(left.coef_, right.coef_)
        np.testing.assert_array_equal(left.objective_path_, right.objective_path_)


def test_warm_start_goes_on_from_the_last_weights(seed):
    X, y = mixtures(seed)
    svm = latent(2, start="random", warm_start=True).fit(X, y)
    first = svm.objective_path_[-1]
    svm.fit(X, y)
    assert svm.objective_path_[-1] <= first + 1e-3 * svm.C * len(y)
    with refusal("warm_start", "weights"):
        svm.set_params(model=models.Latent(models.Multiclass(bias=1.0), parts=3)).fit(X, y)


def test_costs_priors_and_bounds(seed):
    X, y = mixtures(seed)
    costs = np.array([[0.0, 3.0], [1.0, 0.0]])
    model = models.Latent(models.Multiclass(loss=costs), parts=2)
    plain = mm.LatentSVM(model, C=0.1, random_state=0).fit(X, y)
    assert plain.certificate_.converged
    for settings in (
        {"prior": (plain.coef_, 0.5)},
        {"nonnegative": [0, 1]},
        {"prior": (0, np.ones(8))},
    ):
        svm = mm.LatentSVM(model, C=0.1, random_state=0, **settings).fit(X, y)
        assert (np.diff(svm.objective_path_) <= 1e-9).all()
        assert svm.certificate_.converged


@pytest.mark.parametrize("solver", ["auto", "sda", "one-slack"])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_an_own_model_with_hidden_parts(seed, solver, n_jobs):
    X, y = hidden_halves(seed)
    # At w = 0 all completions choose the same half; the first w then separates the halves.
    model = models.Latent(HiddenShift())
    settings = {"C": 0.5, "tol": 1e-4, "n_jobs": n_jobs, "solver": solver}
    svm = mm.LatentSVM(model, round_tol=1e-8, **settings).fit(X, y)
    path = svm.objective_path_
    assert len(path) > 1
    assert (np.diff(path) <= 1e-9 * path[0]).all() and path[-1] < path[0]
    inner, w = svm.model_.inner_, svm.coef_
    slacks = [
        max((z[0] != label) + w @ inner.joint_feature(x, z) for z in inner.everything())
        - max(w @ inner.joint_feature(x, (label, h)) for h in (0, 1))
        for x, label in zip(X, y, strict=True)
    ]
    assert path[-1] == pytest.approx(0.5 * w @ w + 0.5 * sum(slacks), rel=1e-9)
    assert set(svm.predict(X)) <= {0, 1}
    assert svm.score(X, y) > 0.9
    assert svm.loss(X, y) == pytest.approx(1 - svm.score(X, y))
    with refusal("save", "Python"):
        svm.save("never")


def test_files_clones_and_grid_search(seed, tmp_path):
    X, y = mixtures(seed)
    svm = latent({"same": 2, "other": 3}).fit(X, y)
    svm.save(tmp_path / "m")
    loaded = mm.load(tmp_path / "m")
    assert isinstance(loaded, mm.LatentSVM)
    np.testing.assert_array_equal(loaded.predict(X), svm.predict(X))
    assert loaded.max_rounds == svm.max_rounds
    assert mm.objective(loaded, loaded.coef_, X, y) == pytest.approx(svm.objective_path_[-1])
    assert clone(svm).model.parts == {"same": 2, "other": 3}
    search = GridSearchCV(latent(), {"model__parts": [1, 2]}, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_ == {"model__parts": 2}


def test_too_few_rounds_are_told(seed):
    X, y = mixtures(seed)
    with pytest.warns(ConvergenceWarning, match="max_rounds"):
        latent(4, start="random", max_rounds=1).fit(X, y)


def test_budgets_are_those_of_all_rounds(seed):
    X, y = mixtures(seed)
    whole = latent(4, start="random", round_tol=1e-7).fit(X, y)
    history = whole.history_
    assert len(set(history["round"])) == len(whole.objective_path_) > 1
    assert (np.diff(history["round"]) >= 0).all() and (np.diff(history["seconds"]) >= 0).all()
    assert (np.diff(history["passes"]) > 0).all()
    assert whole.certificate_.passes > history["passes"][-1] > 0
    assert whole.certificate_.oracle_calls == round(whole.certificate_.passes * len(y))
    first = int(np.flatnonzero(history["round"] == 0)[-1])
    half = history["passes"][first] + 0.5
    with pytest.warns(ConvergenceWarning, match="max_passes"):
        short = latent(4, start="random", round_tol=1e-7, max_passes=half).fit(X, y)
    assert len(short.objective_path_) == 1
    np.testing.assert_allclose(short.objective_path_[0], whole.objective_path_[0])
    # the pass that measures F is not interrupted
    assert half <= short.certificate_.passes <= half + 1
    with pytest.warns(ConvergenceWarning, match="max_seconds"):
        brief = latent(4, start="random", round_tol=1e-7, max_seconds=1e-9).fit(X, y)
    assert len(brief.objective_path_) == 1
    again = mm.certify(whole, X, y)
    assert again.gap == pytest.approx(whole.certificate_.gap, abs=1e-9)


def test_a_callback_ends_all_rounds(seed):
    class First(mm.callbacks.Callback):
        starts = 0

        def on_start(self, info):
            self.starts += 1

        def on_step(self, info):
            return True

    X, y = mixtures(seed)
    first = First()
    with pytest.warns(ConvergenceWarning, match="callback"):
        svm = latent(4, start="random", tol=1e-9).fit(X, y, callbacks=[first])
    assert first.starts == len(svm.objective_path_) == 1


def test_bad_use_is_refused(seed):
    X, y = mixtures(seed)
    with refusal("LatentSVM", "hidden"):
        mm.StructuralSVM(models.Latent(models.Multiclass(), parts=2)).fit(X, y)
    with refusal("Latent", "Ranking"):
        mm.LatentSVM(models.Ranking()).fit(X, y)
    with refusal("parts", "Multiclass", "Binary"):
        mm.LatentSVM(models.Latent(models.Binary(), parts=2)).fit(X, y)
    with refusal("complete", "observed", "parts"):
        mm.LatentSVM(models.Latent(models.Multiclass())).fit(X, y)
    for parts in (0, 1.5, True, "two", {"same": 0}):
        with refusal("parts"):
            latent(parts).fit(X, y)
    with refusal("parts", "neither"):
        latent({"neither": 2}).fit(X, y)
    with refusal("start", "zero"):
        latent(start="zero").fit(X, y)
    with refusal("iterator", "each round reads the chunks again"):
        latent(solver="streaming").fit(iter([(X, y)]))
    with refusal("hinge", "max", "sum"):
        latent(hinge="sum").fit(X, y)
    for name, value in (("max_rounds", 0), ("max_rounds", 1.5), ("round_tol", -1.0)):
        with refusal(name, str(value)):
            latent(**{name: value}).fit(X, y)


@pytest.mark.parametrize("hinge", ["sum", None, np.array([]), ["max"]])
def test_another_hinge_is_refused_by_name(hinge):
    with refusal("hinge must be 'max'"):
        mm.LatentSVM(models.Latent(models.Multiclass(), parts=2), hinge=hinge).fit(
            [[0.0], [1.0]], [0, 1]
        )
