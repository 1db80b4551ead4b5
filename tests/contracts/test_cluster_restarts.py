"""Schedulers, workers and drivers that die; fits on a cluster then resume from their checkpoint."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import maxmargin as mm
from cluster_processes import processes
from contracts.test_cluster import divided, rows, structural, words
from maxmargin import cluster, models
from maxmargin.callbacks import Callback
from maxmargin.cli import main

AT_ONCE = 1e-9  # seconds, so that every round is saved


class Record(Callback):
    """Records the bounds of every round, and calls functions after given rounds."""

    def __init__(self, **at):
        self.at, self.rounds = at, []

    def on_step(self, info):
        self.rounds.append(info)
        act = self.at.get(f"round_{len(self.rounds)}")
        if act is not None:
            act()


def same_optimum(svm, alone):
    found = svm.certificate_
    assert found.converged and found.dual <= found.primal
    assert alone.dual <= found.primal * (1 + 1e-12) and found.dual <= alone.primal * (1 + 1e-12)
    assert found.primal == pytest.approx(alone.primal, rel=1e-6)


def test_a_restarted_scheduler_with_a_checkpoint(tmp_path):
    """A worker is killed, then the scheduler; a second cluster finishes the fit."""
    X, Y = words()
    parts, X_all, Y_all = divided(X, Y, 4)
    alone = structural(models.Chain(), 1.0).fit(X, Y).certificate_
    path = tmp_path / "fit"
    with processes(tmp_path / "first") as (client, started):
        scheduler, worker, _ = started
        record = Record(round_4=worker.kill, round_9=scheduler.kill)
        with pytest.raises(cluster.PartError, match=r"scheduler was lost.*resume=True"):
            cluster.fit(
                structural(models.Chain(), 1.0),
                parts,
                client,
                callbacks=[record],
                checkpoint=path,
                checkpoint_every=1000.0,  # so the loss of the scheduler writes the checkpoint
            )
        assert worker.wait() and scheduler.wait()
    later = Record()
    with processes(tmp_path / "second") as (client, _):
        svm = structural(models.Chain(), 1.0)
        asked = {"checkpoint": path, "resume": True, "collect": True}
        cluster.fit(svm, parts, client, callbacks=[later], **asked)
    same_optimum(svm, alone)
    assert mm.certify(svm, X_all, Y_all).gap <= 6e-7
    before, after = record.rounds[-1], later.rounds[0]
    assert after.step > before.step and after.passes > before.passes
    assert after.dual >= before.dual - 1e-9
    assert (np.diff(svm.history_["dual"]) >= 0).all()


DRIVER = """
import sys
from pathlib import Path
from distributed import Client
from contracts.test_cluster import structural
from maxmargin import cluster, models
from maxmargin.callbacks import Callback

class Say(Callback):
    def on_step(self, info):
        print(info.step, flush=True)

folder, scheduler = Path(sys.argv[1]), sys.argv[2]
with Client(scheduler) as client:
    cluster.fit(structural(models.Multiclass()), folder / "rows", client, n_parts=3, callbacks=[Say()],
                checkpoint=folder / "fit", checkpoint_every=1e-9, resume=True)
"""


def test_a_driver_that_is_killed_goes_on(tmp_path, client, seed):
    X, y = rows(120)
    mm.data.write_shards(tmp_path / "rows", X, y, shard_bytes=1000)
    alone = structural(models.Multiclass()).fit(X, y).certificate_
    rng = np.random.default_rng(seed)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", DRIVER, str(tmp_path), client.scheduler.address]
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as own:
            for _ in range(int(rng.integers(2, 6))):
                assert own.stdout.readline()
            own.kill()
    record, svm = Record(), structural(models.Multiclass())
    asked = {"checkpoint": tmp_path / "fit", "resume": True}
    cluster.fit(svm, tmp_path / "rows", client, n_parts=3, callbacks=[record], **asked)
    assert record.rounds[0].step > 3
    same_optimum(svm, alone)
    again = Record()
    cluster.fit(svm, tmp_path / "rows", client, n_parts=3, callbacks=[again], **asked)
    same_optimum(svm, alone)


def test_the_command_line_trains_on_a_cluster(client, tmp_path, capsys):
    X, y = rows(60)
    mm.data.write_shards(tmp_path / "rows", X, y, shard_bytes=500)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    scheduler = ["--scheduler", client.scheduler.address]
    kept = ["--checkpoint", str(tmp_path / "fit"), "--resume"]
    alone = mm.MulticlassSVC(tol=1e-6, random_state=0).fit(X, y).certificate_
    for data, more in (
        ("rows", ["--parts", "3", *kept]),
        ("rows.npz", []),
        ("rows.npz", ["--parts", "4"]),
    ):
        command = ["train", str(tmp_path / data), str(tmp_path / "m"), "--json", "--tol", "1e-6"]
        assert main([*command, *scheduler, *more]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["converged"] and found["solver"] == "cluster"
        assert found["primal"] == pytest.approx(alone.primal, rel=1e-5)
        assert mm.load(tmp_path / "m").score(X, y) > 0.5
    assert main([*command, "--parts", "2"]) == 1
    assert "--parts needs --scheduler" in capsys.readouterr().err
    (tmp_path / "rows" / "shard-00000.data").unlink()
    assert main(["train", str(tmp_path / "rows"), str(tmp_path / "m"), *scheduler]) == 1
    assert "shard-00000.data is missing" in capsys.readouterr().err


def test_checkpoints_of_other_clusters_are_refused(client, tmp_path):
    X, y = rows(40)
    parts = [(X[:20], y[:20]), (X[20:], y[20:])]
    path = tmp_path / "fit"

    class Stop(Callback):
        def on_step(self, info):
            return info.step == 3

    asked = {"checkpoint": path, "resume": True}
    with pytest.warns(UserWarning, match="not converged"):
        cluster.fit(structural(models.Multiclass()), parts, client, callbacks=[Stop()], **asked)
    content = path.read_bytes()
    others = [
        (structural(models.Multiclass(), C=0.2), parts, "C was 0.1, now it is 0.2"),
        (structural(models.Multiclass()), [*parts, (X, y)], "number of parts was 2, now it is 3"),
        (structural(models.Multiclass()), [parts[1], parts[0]], "checksums of the parts was"),
        (structural(models.Multiclass()), [(X[:19], y[:19]), parts[1]], "numbers of examples was"),
    ]
    for svm, source, difference in others:
        with pytest.raises(ValueError, match="checkpoint of another fit") as caught:
            cluster.fit(svm, source, client, **asked)
        assert difference in str(caught.value)
    with pytest.raises(ValueError, match="checkpoint of another fit"):
        structural(models.Multiclass()).fit(X, y, **asked)
    with pytest.raises(ValueError, match="needs the parameter checkpoint"):
        cluster.fit(structural(models.Multiclass()), parts, client, resume=True)
    assert path.read_bytes() == content
    path.write_bytes(content[:-1])
    with pytest.raises(mm.ModelFileError, match="damaged"):
        cluster.fit(structural(models.Multiclass()), parts, client, **asked)
    path.write_bytes(content)
    svm = cluster.fit(structural(models.Multiclass()), parts, client, **asked)
    same_optimum(svm, structural(models.Multiclass()).fit(X, y).certificate_)
    # Shards are identified by their checksums, wherever they are stored.
    for name in ("here", "there"):
        mm.data.write_shards(tmp_path / name, X, y, shard_bytes=500)
    kept = {"checkpoint": tmp_path / "shards", "resume": True}
    cluster.fit(structural(models.Multiclass()), tmp_path / "here", client, 2, **kept)
    cluster.fit(structural(models.Multiclass()), tmp_path / "there", client, 2, **kept)
    mm.data.write_shards(tmp_path / "there", 2 * X, y, shard_bytes=500, overwrite=True)
    with pytest.raises(ValueError, match="checksums of the parts"):
        cluster.fit(structural(models.Multiclass()), tmp_path / "there", client, 2, **kept)
