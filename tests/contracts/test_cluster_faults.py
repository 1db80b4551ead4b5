"""Faults of a cluster: garbage, changed files, full disks, workers that die within a pass, Ctrl-C."""

import errno
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster

# The benchmarks are a folder of the repository and are not in the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.scale.in_process import InProcess, fit, prepare

import maxmargin as mm
from helpers import quietly
from loopback import agree
from maxmargin import cluster, models
from maxmargin.callbacks import Callback
from maxmargin.checkpoint import make_checkpoint
from maxmargin.cluster.driver import ClusterCheckpoint, play
from maxmargin.cluster.pool import Pool, connected
from maxmargin.cluster.worker import Point
from maxmargin.io.model_file import CHECKPOINT, read, write
from reference.python_chain import PythonMulticlass

TOL = 1e-3


def structural(model, **settings):
    return mm.StructuralSVM(model, C=0.1, tol=TOL, max_passes=1e4, random_state=0, **settings)


def rows(seed, n=60):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 4)) + np.eye(4)[y], y


def halves(seed, n=60):
    X, y = rows(seed, n)
    return [(X[: n // 2], y[: n // 2]), (X[n // 2 :], y[n // 2 :])]


# Workers that answer with garbage.


class Faulty(InProcess):
    """From some round on, one part gets a wrong answer."""

    def __init__(self, parts, spoil, at):
        super().__init__(parts)
        self.spoil, self.at, self.round = spoil, at, 0

    def receive(self, *args):
        answers, self.round = super().receive(*args), self.round + 1
        if self.round >= self.at:
            answers[1] = self.spoil(answers[1])
        return answers


def changed(point, factor):
    return Point(factor * point.offset, factor * point.dense)


GARBAGE = {
    "nan": lambda a: replace(a, proposal=Point(a.proposal.offset, np.nan * a.proposal.dense)),
    "infinite risk": lambda a: replace(a, risk=np.inf, seen=np.inf),
    "nan offset": lambda a: replace(a, cut=Point(np.nan, a.cut.dense)),
    "a bound that is none": lambda a: replace(a, proposal=Point(2 + a.risk, a.proposal.dense)),
    "a risk that is too small": lambda a: replace(a, risk=0.5 * a.risk, seen=0.5 * a.seen),
    "a point counted twice": lambda a: replace(a, cut=changed(a.cut, 2.0)),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_stops_training_and_leaves_a_checkpoint(name, tmp_path, seed):
    """A bound that exceeds the objective, or is not a number, is not mixed with the other parts."""
    parts, path = halves(seed), tmp_path / "fit"
    svm = structural(models.Multiclass())
    words = "not finite" if "nan" in name or "infinite" in name else "contradicts"
    pool = Faulty(parts, GARBAGE[name], at=3)
    kept = make_checkpoint(path, 1e9, False, ClusterCheckpoint)
    try:
        rounds = prepare(svm, pool)
        kept.open(svm, rounds)
        with pytest.raises(cluster.PartError, match=rf"part 1: .*{words}"):
            play(rounds, kept)
    finally:
        pool.close()
    # A resumed fit keeps all proven bounds, and its optimum equals that of one process.
    pool, svm = InProcess(parts), structural(models.Multiclass())
    kept = make_checkpoint(path, 1e9, True, ClusterCheckpoint)
    try:
        rounds = prepare(svm, pool)
        kept.open(svm, rounds)
        assert rounds.round == 3
        play(rounds, kept)
        X, y = rows(seed)
        agree(rounds.certificate(), structural(models.Multiclass()).fit(X, y).certificate_)
    finally:
        pool.close()


def test_a_checkpoint_with_bounds_that_are_none_is_found_out(tmp_path, seed):
    """The checksum may be right, but the worker of each part compares the stored bounds with its data."""
    parts, path = halves(seed), tmp_path / "fit"

    def run(resume, most):
        pool = InProcess(parts)
        svm = structural(models.Multiclass())
        kept = make_checkpoint(path, 1e-9, resume, ClusterCheckpoint)
        try:
            rounds = prepare(svm, pool, callbacks=[Stop(most)])
            kept.open(svm, rounds)
            play(rounds, kept)
        finally:
            pool.close()

    run(False, 4)
    header, arrays = read(path, CHECKPOINT)
    arrays = {name: array.copy() for name, array in arrays.items()}
    content = path.read_bytes()
    spoilt = {
        "contradicts": {"offsets": arrays["offsets"] + 5.0},
        "w holds NaN": {"w": np.nan * arrays["w"]},
        "vectors": {"vectors": arrays["vectors"][:1]},
    }
    for name, change in spoilt.items():
        new = {key: np.ascontiguousarray(value) for key, value in (arrays | change).items()}
        own = {key: value for key, value in header.items() if key != "format"}
        write(path, own, new, CHECKPOINT)
        with pytest.raises((cluster.PartError, mm.ModelFileError), match=name):
            run(True, 50)
        path.write_bytes(content)
    run(True, 50)


class Stop(Callback):
    def __init__(self, most):
        self.most = most

    def on_step(self, info):
        return info.step >= self.most


# Files and disks.


def test_bytes_that_flip_in_a_mapped_file_are_found(client, tmp_path, seed):
    """A file that changes after it was opened and compared yields no certificate."""
    X, y = rows(seed, 80)
    mm.data.write_shards(tmp_path / "rows", X, y, shard_bytes=1000)
    victim = tmp_path / "rows" / "shard-00001.data"

    class Flip(Callback):
        def on_step(self, info):
            if info.step == 2:
                with victim.open("r+b") as file:
                    file.seek(len(victim.read_bytes()) // 2)
                    file.write(b"\x01")

    svm = structural(models.Multiclass())
    with pytest.raises(
        cluster.PartError, match=r"shard-00001\.data: its content has changed|contra"
    ):
        cluster.fit(svm, tmp_path / "rows", client, callbacks=[Flip()])
    assert not hasattr(svm, "coef_")


def fill_disk():
    from maxmargin.data import sharded

    def refuse(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    sharded.kept_spilled, sharded.spilled = sharded.spilled, refuse


def empty_disk():
    from maxmargin.data import sharded

    sharded.spilled = sharded.kept_spilled


def test_a_full_disk_of_a_worker_is_named(client, tmp_path, seed):
    X, y = rows(seed, 40)
    X, Y = [X[k : k + 4] for k in range(0, 40, 4)], [y[k : k + 4] for k in range(0, 40, 4)]
    mm.data.write_shards(tmp_path / "words", X, Y, shard_bytes=300)
    client.run(fill_disk)
    try:
        svm = structural(models.Chain())
        with pytest.raises(cluster.PartError, match=r"part \d .*words.* No space left on device"):
            cluster.fit(svm, tmp_path / "words", client)
    finally:
        client.run(empty_disk)
    assert not hasattr(svm, "coef_")
    cluster.fit(svm, tmp_path / "words", client)
    agree(svm.certificate_, structural(models.Chain()).fit(X, Y).certificate_)


def test_a_full_disk_of_the_driver_costs_the_checkpoint_alone(tmp_path, seed, monkeypatch):
    from maxmargin import checkpoint

    def refuse(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "write", refuse)
    pool, svm = InProcess(halves(seed)), structural(models.Multiclass())
    kept = make_checkpoint(tmp_path / "fit", 1e-9, False, ClusterCheckpoint)
    try:
        rounds = prepare(svm, pool)
        kept.open(svm, rounds)
        with pytest.warns(RuntimeWarning, match="No space left"):
            play(rounds, kept)
    finally:
        pool.close()
    assert rounds.certificate().converged and not (tmp_path / "fit").exists()


# Workers that die within a pass.


class Deadly(PythonMulticlass):
    """Kills its own process once, in a call of the requested kind."""

    def __init__(self, costs, flag, kind, after):
        super().__init__(costs)
        self.flag, self.kind, self.after, self.calls = str(flag), kind, after, 0

    def perhaps(self, kind):
        self.calls += kind == self.kind
        if self.calls == self.after and not os.path.exists(self.flag) and is_worker():
            Path(self.flag).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def loss_augmented_inference(self, x, y, w):
        self.perhaps("pass")
        return super().loss_augmented_inference(x, y, w)

    def inference(self, x, w):
        self.perhaps("proof")
        return super().inference(x, w)


def is_worker():
    from distributed import get_worker

    try:
        return bool(get_worker())
    except ValueError:
        return False


@pytest.mark.parametrize("kind", ["pass", "proof"])
def test_a_worker_that_dies_within_a_pass(kind, client, tmp_path, seed):
    """The worker dies in an exact pass, or in the last pass, which compares with the model's predictions."""
    parts = [(list(X), y.tolist()) for X, y in halves(seed, 24)]
    model = Deadly(1 - np.eye(3), tmp_path / "died", kind, after=40 if kind == "pass" else 5)
    svm = cluster.fit(structural(model), parts, client)
    assert (tmp_path / "died").exists()
    X, y = rows(seed, 24)
    alone = structural(PythonMulticlass(1 - np.eye(3))).fit(list(X), y.tolist())
    agree(svm.certificate_, alone.certificate_)


def test_tasks_that_are_cancelled_say_that_the_scheduler_is_lost(client):
    """The client cancels its tasks when it loses the scheduler; that can be the first sign of the loss."""
    pool = Pool(client, [([[1.0]], [0])], retries=0, patience=3.0)
    # the worker still sleeps after the cancellation
    future = client.submit(time.sleep, 1, pure=False)
    future.cancel()
    while future.status == "pending":
        time.sleep(0.01)
    with pytest.raises(cluster.PartError, match="scheduler was lost"), connected():
        pool._result(0, future)
    with pytest.raises(cluster.PartError, match="scheduler was lost"), connected():
        raise OSError("Timed out trying to connect to tcp://127.0.0.1:1")


# Ctrl-C.


def test_ctrl_c_ends_with_what_is_known_and_a_checkpoint(client, tmp_path, seed):
    parts, path = halves(seed), tmp_path / "fit"

    class Press(Callback):
        def on_step(self, info):
            if info.step == 3:
                signal.raise_signal(signal.SIGINT)

    svm = structural(models.Multiclass()).set_params(tol=1e-6)
    quietly(lambda: cluster.fit(svm, parts, client, callbacks=[Press()], checkpoint=path))
    assert svm.certificate_.status == "interrupted" and not svm.certificate_.converged
    assert svm.certificate_.dual <= svm.certificate_.primal
    later = structural(models.Multiclass())
    cluster.fit(later, parts, client, checkpoint=path, resume=True)
    X, y = rows(seed)
    agree(later.certificate_, structural(models.Multiclass()).fit(X, y).certificate_)
    assert later.certificate_.passes > svm.certificate_.passes


def test_what_is_held_is_feasible_after_all_of_it(seed):
    """Multipliers of lost and late parts sum to the mass of each example, and certify anywhere."""
    X, y = rows(seed)
    pool = InProcess(halves(seed), absent=0.4, seed=seed)

    class Lose(Callback):
        def on_step(self, info):
            if info.step in (2, 5):
                pool.lose(info.step % 2)

    svm = fit(structural(models.Multiclass()), None, pool=pool, callbacks=[Lose()])
    sums = np.bincount(svm.support_.blocks, svm.support_.multipliers, minlength=len(y))
    np.testing.assert_allclose(sums, 0.1, rtol=1e-9)
    proof = mm.certify(svm, X, y)
    assert proof.gap <= 2 * TOL and proof.dual <= proof.primal


def test_a_cluster_without_workers_is_refused_after_a_while(monkeypatch, seed):
    from maxmargin.cluster import pool

    monkeypatch.setattr(pool, "LONELY", 0.2)
    empty = LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50)
    words = "no workers for 0 seconds; start one"
    with (
        empty as made,
        Client(made, set_as_default=False) as client,
        pytest.raises(ValueError, match=words),
    ):
        cluster.fit(structural(models.Multiclass()), halves(seed), client)
