"""Training on a real cluster of processes: the optimum of one process, and what faults do to it."""

import os
import signal
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm
from maxmargin import cluster, models, solvers
from maxmargin.callbacks import Callback
from maxmargin.cluster import pool as pool_module
from maxmargin.cluster.pool import Pool
from maxmargin.problem.certificate import PROGRESS, RELATIVE, Tolerance
from reference.python_chain import PythonMulticlass

# A gap in units of the loss: it is within 1e-6 of the optimum of each problem here.
TIGHT = 3e-7


class Slowly(PythonMulticlass):
    """A model that waits until the file named in the environment is gone."""

    def loss_augmented_inference(self, x, y, w):
        while os.path.exists(os.environ.get("MAXMARGIN_TEST_GATE", "")):
            time.sleep(0.01)
        return super().loss_augmented_inference(x, y, w)


def rows(n=48, seed=0, labels=3):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % labels
    return rng.normal(size=(n, 4)) + np.eye(4)[y], y


def words(n=16, seed=0):
    rng = np.random.default_rng(seed)
    Y = [rng.integers(0, 3, rng.integers(2, 5)) for _ in range(n)]
    return [rng.normal(size=(len(y), 3)) + np.eye(3)[y] for y in Y], Y


def structural(model, C=0.1, **settings):
    return mm.StructuralSVM(model, C=C, tol=TIGHT, max_passes=1e5, random_state=0, **settings)


COVARIANCE = (0.1, np.diag(np.linspace(0.5, 1.5, 15)) + 0.1)
# Every model is in test_cluster_models.py, without processes.
PROBLEMS = {
    "chain": lambda: (structural(models.Chain(bias=1.0, start=True), 1.0), *words(8)),
    "multiclass-slack": lambda: (
        structural(models.Multiclass(bias=1.0), 1.0, rescaling="slack"),
        *rows(),
    ),
    "multiclass-sparse": lambda: (
        structural(models.Multiclass()),
        sp.csr_matrix(rows()[0]),
        rows()[1],
    ),
    "covariance": lambda: (structural(models.Multiclass(bias=1.0), prior=COVARIANCE), *rows()),
    "binary": lambda: (mm.BinarySVC(tol=TIGHT, C=0.3), *rows(labels=2)),
    "classes": lambda: (mm.MulticlassSVC(tol=TIGHT, C=0.3, class_weight="balanced"), *rows()),
    "own": lambda: (structural(PythonMulticlass(1 - np.eye(3))), *map(list, rows(30))),
}


def divided(X, Y, n_parts):
    """Parts of examples, and the examples in the order of the parts."""
    groups = np.array_split(np.random.default_rng(1).permutation(len(Y)), n_parts)
    parts = [(take(X, group), take(Y, group)) for group in groups]
    order = np.concatenate(groups)
    return parts, take(X, order), take(Y, order)


def take(data, which):
    return data[which] if hasattr(data, "shape") else [data[i] for i in which]


@pytest.mark.parametrize("name", PROBLEMS)
def test_two_and_four_parts_have_the_optimum_of_one_process(name, client):
    svm, X, Y = PROBLEMS[name]()
    alone = svm.fit(X, Y).certificate_
    for n_parts in (2, 4):
        svm, *_ = PROBLEMS[name]()
        parts, X_all, Y_all = divided(X, Y, n_parts)
        assert cluster.fit(svm, parts, client, collect=True) is svm
        found = svm.certificate_
        assert found.converged and found.dual <= found.primal
        assert alone.dual <= found.primal * (1 + 1e-12) and found.dual <= alone.primal * (1 + 1e-12)
        assert found.primal == pytest.approx(alone.primal, rel=1e-6)
        # The multipliers of the workers prove it to a stranger.
        proof = mm.certify(svm, X_all, Y_all)
        assert proof.primal == pytest.approx(found.primal, rel=1e-12)
        assert proof.dual <= found.dual * (1 + 1e-12)
        assert proof.gap <= 2 * TIGHT
        assert svm.score(X, Y) > 0.5


def test_small_data_bring_a_warning_that_one_machine_is_faster(client):
    """The passes of all workers together take less time than the communication of the rounds."""
    X, y = rows()
    with pytest.warns(UserWarning, match=r"one machine is faster.*svm\.fit") as caught:
        cluster.fit(mm.StructuralSVM(models.Multiclass()), divided(X, y, 2)[0], client)
    assert any(one.filename == __file__ for one in caught)


@pytest.mark.parametrize("C", [1e-3, 1e-2, 30.0])
def test_the_tolerance_follows_the_objective_of_all_parts(C, client):
    X, y = rows()
    parts, X_all, y_all = divided(X, y, 4)
    svm = mm.StructuralSVM(models.Multiclass(), C=C, max_passes=1e5, random_state=0)
    found = cluster.fit(svm, parts, client).certificate_
    zero = C * len(y)  # P(0): each example has a wrong label, whose loss is 1
    assert svm.tol == "auto" and found.converged
    assert found.relative_gap <= RELATIVE
    assert found.primal - found.dual <= PROGRESS * (zero - found.dual)
    asked = Tolerance("auto", C * len(y), 1.0, zero)
    assert found.tol == pytest.approx(asked.at(found.primal, found.dual), rel=1e-6)
    best = structural(models.Multiclass(), C).fit(X_all, y_all).certificate_
    assert found.dual <= best.primal and best.dual <= found.primal


def test_a_folder_of_shards_is_divided_among_the_workers(client, tmp_path):
    X, y = rows(200, labels=3)
    y = np.sort(y)  # no part has all labels
    mm.data.write_shards(tmp_path / "rows", X[np.argsort(y)], y, shard_bytes=1000)
    alone = structural(models.Multiclass()).fit(X[np.argsort(y)], y)
    for n_parts in (None, 3):
        svm = cluster.fit(structural(models.Multiclass()), tmp_path / "rows", client, n_parts)
        assert svm.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=1e-6)
        assert svm.classes_.tolist() == [0, 1, 2] and svm.support_ is None


def test_folders_of_sequences_are_parts(client, tmp_path):
    X, Y = words(12)
    parts, X_all, Y_all = divided(X, Y, 2)
    for k, part in enumerate(parts):
        mm.data.write_shards(tmp_path / str(k), *part)
    folders = [tmp_path / "0", tmp_path / "1"]
    svm = cluster.fit(structural(models.Chain()), folders, client, collect=True)
    assert svm.certificate_.converged
    assert mm.certify(svm, X_all, Y_all).gap <= 2 * TIGHT


@pytest.mark.parametrize("features", ["all", "observed"])
def test_names_of_attributes_and_labels_of_all_parts_are_known(features, client):
    sentences = [[["the", "dog"], ["D", "N"]], [["a", "cat", "runs"], ["D", "N", "V"]]]
    sentences += [[["birds", "sing"], ["N", "V"]], [["so", "fast"], ["R", "A"]]]
    X, Y = [s[0] for s in sentences], [s[1] for s in sentences]
    alone = structural(models.Chain(features=features), 1.0).fit(X, Y)
    svm = structural(models.Chain(features=features), 1.0)
    cluster.fit(svm, [(X[:2], Y[:2]), (X[2:], Y[2:])], client)
    assert svm.classes_.tolist() == alone.classes_.tolist()
    assert svm.model_.feature_names_.tolist() == alone.model_.feature_names_.tolist()
    np.testing.assert_allclose(svm.coef_, alone.coef_, atol=1e-3)
    assert [y.tolist() for y in svm.predict(X)] == Y


def test_weights_of_examples(client):
    rng = np.random.default_rng(0)
    X, y = rows(24)
    v = rng.integers(0, 3, 24).astype(float)
    alone = structural(models.Multiclass()).fit(X, y, sample_weight=v)
    parts = [(X[:9], y[:9], v[:9]), (X[9:], y[9:], v[9:])]
    svm = cluster.fit(structural(models.Multiclass()), parts, client)
    assert svm.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=1e-6)
    v[:9] = 0.0
    with pytest.raises(cluster.PartError, match=r"part 0 .*zero for every example"):
        cluster.fit(structural(models.Multiclass()), [(X[:9], y[:9], v[:9]), parts[1]], client)


# Faults


class KillOne(Callback):
    """Kills a worker by its process id, after some rounds; others are left, whether it is replaced or not."""

    def __init__(self, client, at):
        self.client, self.at, self.killed = client, at, []

    def on_step(self, info):
        if info.step in self.at:
            address, pid = sorted(self.client.run(os.getpid).items())[0]
            os.kill(pid, signal.SIGKILL)
            self.killed.append((address, pid))


def test_a_killed_worker_costs_rounds_and_nothing_else(client):
    X, Y = words()
    parts, X_all, Y_all = divided(X, Y, 4)
    alone = structural(models.Chain(), 1.0).fit(X, Y).certificate_
    kill, svm = KillOne(client, at=(4, 9)), structural(models.Chain(), 1.0)
    cluster.fit(svm, parts, client, collect=True, callbacks=[kill])
    assert len(kill.killed) == 2
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(alone.primal, rel=1e-6)
    assert mm.certify(svm, X_all, Y_all).gap <= 2 * TIGHT
    # The bound of the lost points stays valid, so the dual does not fall.
    assert (np.diff(svm.history_["dual"]) >= 0).all()


def test_workers_that_read_shards_may_die_as_well(client, tmp_path):
    X, y = rows(80)
    mm.data.write_shards(tmp_path / "rows", X, y, shard_bytes=1000)
    alone = structural(models.Multiclass()).fit(X, y).certificate_
    kill = KillOne(client, at=(3,))
    svm = cluster.fit(structural(models.Multiclass()), tmp_path / "rows", client, callbacks=[kill])
    assert kill.killed and svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(alone.primal, rel=1e-6)


def set_gate(path):
    os.environ["MAXMARGIN_TEST_GATE"] = str(path)


def test_the_others_go_on_without_a_slow_worker(client, monkeypatch, tmp_path):
    """One worker waits until a round has ended without it."""
    monkeypatch.setattr(pool_module, "SHORTEST", 0.05)
    answered, receive, gate = [], Pool.receive, tmp_path / "gate"

    def spy(*args):
        answers = receive(*args)
        answered.append(len(answers))
        if len(answered) == 1:
            gate.touch()
        elif len(answers) == 1:
            gate.unlink(missing_ok=True)
        return answers

    monkeypatch.setattr(Pool, "receive", spy)
    X, y = map(list, rows(16))
    alone = structural(PythonMulticlass(1 - np.eye(3))).fit(X, y).certificate_
    parts, *_ = divided(X, y, 2)
    slow = sorted(client.nthreads())[0]
    client.run(set_gate, gate, workers=[slow])
    try:
        svm = cluster.fit(structural(Slowly(1 - np.eye(3))), parts, client, patience=1.5)
    finally:
        gate.unlink(missing_ok=True)
        client.run(set_gate, "", workers=[slow])
    assert 1 in answered and 2 in answered
    assert svm.certificate_.converged
    assert svm.certificate_.primal == pytest.approx(alone.primal, rel=1e-6)


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_a_shard_that_is_lost_is_named(damage, client, tmp_path):
    X, y = rows(80)
    mm.data.write_shards(tmp_path / "rows", X, y, shard_bytes=1000)
    victim = tmp_path / "rows" / "shard-00001.data"
    content = bytearray(victim.read_bytes())
    if damage == "missing":
        victim.unlink()
    else:
        content[0] ^= 1
        victim.write_bytes(content)
    svm = structural(models.Multiclass())
    with pytest.raises(cluster.PartError, match=r"part \d .*shard-00001\.data"):
        cluster.fit(svm, tmp_path / "rows", client)
    assert not hasattr(svm, "coef_")


def test_a_shard_that_is_lost_with_its_worker_stops_training(client, tmp_path):
    X, y = rows(80)
    mm.data.write_shards(tmp_path / "rows", X, y, shard_bytes=1000)

    class LoseAll(KillOne):
        def on_step(self, info):
            if info.step == 3:
                for path in (tmp_path / "rows").glob("*.data"):
                    path.unlink()
            super().on_step(info)

    lose = LoseAll(client, at=(3,))
    with pytest.raises(cluster.PartError, match=r"is missing"):
        cluster.fit(structural(models.Multiclass()), tmp_path / "rows", client, callbacks=[lose])


def test_budgets_and_callbacks_end_training(client):
    X, Y = words()
    parts, *_ = divided(X, Y, 2)

    class Stop(Callback):
        received = ()

        def on_fit_start(self, estimator):
            self.received = [type(estimator).__name__]

        def on_step(self, info):
            return info.step == 2

        def on_end(self, info):
            self.received.append(info.status)

        def on_fit_end(self, estimator):
            self.received.append(estimator.certificate_.status)

    for settings, status in (
        ({"max_passes": 10}, "pass limit"),
        ({"max_seconds": 1e-3}, "time limit"),
    ):
        svm = mm.StructuralSVM(models.Chain(), tol=TIGHT, **settings)
        with pytest.warns(ConvergenceWarning, match="not converged"):
            cluster.fit(svm, parts, client)
        assert svm.certificate_.status == status and not svm.certificate_.converged
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stop = Stop()
        svm = cluster.fit(structural(models.Chain()), parts, client, callbacks=[stop])
    assert stop.received == ["StructuralSVM", "stopped by a callback", "stopped by a callback"]
    assert svm.certificate_.status == "stopped by a callback"
    assert len(svm.history_["gap"]) == 2


# Refusals


def test_what_cannot_be_solved_is_refused_in_words(client, tmp_path):
    X, y = rows(12, labels=2)
    parts = [(X[:6], y[:6]), (X[6:], y[6:])]
    model = models.Multiclass()
    refused = [
        (mm.StructuralSVM(model, hinge="sum"), "only supports hinge='max'"),
        (mm.StructuralSVM(model, nonnegative=[0]), "nonnegative"),
        (mm.StructuralSVM(model, solver="one-slack"), "solver must be"),
        (mm.BinarySVC(penalized_intercept=False), "penalized_intercept"),
        (mm.BinarySVC(loss="f1"), "whole sample"),
        (mm.StructuralSVM(models.Kernel(model)), "exact kernel"),
        (mm.StructuralSVM(model, prior=(0.0, [np.inf, *[1.0] * 7])), "infinite scale"),
    ]
    for svm, words_of_it in refused:
        with pytest.raises(ValueError, match=words_of_it):
            cluster.fit(svm, parts, client)
        assert not hasattr(svm, "coef_")
    svm = mm.StructuralSVM(model)
    for other in (
        mm.RegressionSVR(),
        mm.CRF(model),
        mm.LatentSVM(model),
        mm.StructuralSVMCV(model),
        mm.MulticlassSVCCV(),
    ):
        with pytest.raises(TypeError, match=f"got {type(other).__name__}"):
            cluster.fit(other, parts, client)
    with pytest.raises(TypeError, match=r"distributed\.Client"):
        cluster.fit(svm, parts, "127.0.0.1:8786")
    for source, message in (
        (3, "source must be"),
        ([], "source must be"),
        ([(X,)], r"source\[0\]"),
    ):
        with pytest.raises(ValueError, match=message):
            cluster.fit(svm, source, client)
    with pytest.raises(ValueError, match="n_parts is 3"):
        cluster.fit(svm, parts, client, n_parts=3)
    mm.data.write_shards(tmp_path / "rows", X, y)
    with pytest.raises(ValueError, match="smaller shard_bytes"):
        cluster.fit(svm, tmp_path / "rows", client, n_parts=2)
    wide = [(X[:6], y[:6]), (X[6:, :3], y[6:])]
    with pytest.raises((ValueError, cluster.PartError), match=r"features|dimensions"):
        cluster.fit(svm, wide, client)


def test_parts_are_joined(client):
    X, y = rows(24)
    parts = [(X[k::4], y[k::4]) for k in range(4)]
    alone = structural(models.Multiclass()).fit(X, y).certificate_
    svm = cluster.fit(structural(models.Multiclass(), solver=solvers.Proximal()), parts, client, 2)
    assert svm.certificate_.primal == pytest.approx(alone.primal, rel=1e-6)
