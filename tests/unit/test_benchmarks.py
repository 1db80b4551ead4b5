"""Every benchmark runs on its synthetic stand-in, so that none rots."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

# The benchmarks are a folder of the repository, not a part of the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import datasets
from benchmarks.race import bars, config, peers

from benchmark_cases import rows_of, speak

PEERS_FOUND = [name for name in peers.PEERS if peers.available(name)]


def test_primal_of_the_peer_by_hand() -> None:
    W, X = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])
    # Losses: max(0, 1 + 0 - 1) = 0 and max(0, 1 + 2 - 1) = 2.
    assert peers.multiclass_primal(W, X, np.array([0, 0]), C=0.5) == pytest.approx(2.5 + 1.0)


def test_a_limit_of_cpu_time_counts_no_other_time() -> None:
    from benchmarks.timing import cpu_deadline

    from maxmargin._core import core
    from maxmargin.runtime.deadline import TimeUp

    with cpu_deadline(0.05):
        time.sleep(0.1)
        core.poll()
    began = time.process_time()
    with pytest.raises(TimeUp), cpu_deadline(0.05):
        while time.process_time() - began < 10:
            core.poll()
    assert 0.03 < time.process_time() - began < 5
    for _ in range(100):  # the deadline no longer applies
        core.poll()


def test_unknown_config_entries_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "race.json"
    file.write_text('{"data": "usps", "lambads": [1]}', encoding="utf-8")
    with pytest.raises(ValueError, match="unknown keys \\['lambads'\\]"):
        config.Config.read(str(file))
    with pytest.raises(FileNotFoundError, match="neither a file nor one of: conll2000"):
        config.Config.read("nowhere")


@pytest.mark.parametrize("name", ["ocr", "usps", "conll2000", "conll2000-rich"])
def test_race_runs_small(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.race.__main__ import main

    assert main(["--data", name, "--small", "--max-passes", "5", "--out", str(tmp_path)]) == 0
    asked = config.Config.read(name)
    rows = rows_of(tmp_path / f"{name}.csv")
    assert {row["solver"] for row in rows} == set(asked.solvers) | (
        set(asked.peers) & set(PEERS_FOUND)
    )
    assert rows_of(tmp_path / f"{name}-curves.csv")
    assert (tmp_path / f"{name}.png").stat().st_size > 0
    for row in rows:
        assert float(row["fit_cpu"]) >= 0
        if row["dual"]:
            assert float(row["dual"]) <= float(row["primal"]) * (1 + 1e-9)


@pytest.mark.skipif("liblinear" not in PEERS_FOUND, reason="LIBLINEAR is not installed")
def test_liblinear_reaches_the_primal_asked() -> None:
    data = datasets.usps(small=True)
    loose = peers.liblinear(data, peers.Setting(0.1, repeats=1))
    asked = 0.5 * loose["primal"]
    tight = peers.liblinear(data, peers.Setting(0.1, primal=asked, repeats=1))
    assert tight["primal"] <= asked
    assert tight["status"].startswith("tol=")


def test_bars_are_compared_with_the_rows() -> None:
    row = {"solver": "auto", "lambda": 0.01, "tol": 0.001, "passes": 11.2, "test_error": 0.14}
    row |= {"train_cpu": 0.3, "fit_cpu": 0.6}
    slow = {"solver": "bcfw", "lambda": 0.01, "tol": 0.001, "train_cpu": 6.0, "test_error": 0.14}
    slow["fit_cpu"] = 6.2
    crf = {"solver": "crfsuite-lbfgs", "train_cpu": 3.0, "test_error": 0.15}
    lines = bars.compare(config.Config.read("ocr"), [row, slow, crf])
    verdicts = [line.split(";")[0].split()[-1] for line in lines]
    assert verdicts == ["reached", "reached", "MISSED", "reached", "MISSED", "MISSED"]


def test_local_binary_patterns_do_not_change_with_brightness() -> None:
    from benchmarks.papers.fasole.faces import pattern_map, uniform_codes

    assert len(np.unique(uniform_codes())) == 59
    image = np.random.default_rng(0).integers(0, 100, size=(24, 24))
    found = pattern_map(image)
    assert found.shape == (12, 12, 59)
    np.testing.assert_allclose(np.linalg.norm(found, axis=2), 1, rtol=1e-6)
    np.testing.assert_array_equal(found, pattern_map(2 * image + 3))


def test_exact_passes_are_not_counted_as_the_methods_own() -> None:
    from benchmarks.papers.fasole.__main__ import own_passes

    # Steps of 10, 4 and 10 calls on 10 examples; the last two are followed by an exact pass.
    assert own_passes([10, 24, 44], size=10) == pytest.approx(2.4)


def test_micro_runs_small(tmp_path: Path) -> None:
    from benchmarks.micro.__main__ import main

    assert main(["--small", "--repeats", "1", "--out", str(tmp_path)]) == 0
    rows = rows_of(tmp_path / "passes.csv")
    assert {row["pass"] for row in rows} == {"oracle", "ascent", "cached", "predict", "prepare"}
    assert len({row["inputs"] for row in rows if row["data"] == "ocr"}) == 4


def test_reading_attributes_runs_small(tmp_path: Path) -> None:
    from benchmarks.micro.attributes import main

    rows = main(["--small", "--repeats", "1", "--tag", "--train", "--out", str(tmp_path)])
    assert any(row.get("tagging") == "predict, 2 threads" and row["cpu"] > 0 for row in rows)
    found = {row["reading"] for row in rows if "reading" in row}
    assert {"fit_transform", "transform", "hashed"} <= found
    assert next(row for row in rows if row.get("learner") == "maxmargin")["chunk_f1"] > 0.5
    assert (tmp_path / "attributes.csv").is_file()


def test_threads_run_small(tmp_path: Path) -> None:
    from benchmarks.threads.__main__ import TASKS, main

    rows = main(["--small", "--jobs", "2", "--out", str(tmp_path)])
    assert [(row["data"], row["threads"]) for row in rows] == [
        (n, k) for n in TASKS for k in (1, 2)
    ]
    assert all(row["seconds"] > 0 and row["passes"] > 0 for row in rows)
    assert rows_of(tmp_path / "threads.csv")


def test_paths_run_small(tmp_path: Path) -> None:
    from benchmarks.paths.__main__ import CHAINS, ROWS, main

    rows = main(["--small", "--values", "4", "--out", str(tmp_path)])
    assert [(row["data"], row["loss"]) for row in rows] == [
        (name, loss) for name in (*CHAINS, *ROWS) for loss in ("hinge", "log loss")
    ]
    assert all(row["bad"] == 0 and row["path_calls"] > 0 < row["calls"] for row in rows)
    assert rows_of(tmp_path / "paths.csv")


def test_footprint_runs_small(tmp_path: Path) -> None:
    from benchmarks.footprint.__main__ import main

    learners = ["all", "observed", "pruned"]
    rows = main(["--small", "--learners", *learners, "--out", str(tmp_path)])
    assert [(row["data"], row["learner"]) for row in rows] == [
        (name, learner) for name in ("conll2000", "czech") for learner in learners
    ]
    assert all(row["fit_peak"] > 0 and row["latency"] > 0 for row in rows)
    assert all(row["test_error"] < 0.2 for row in rows)
    files = {row["learner"]: row["file"] for row in rows}
    assert files["pruned"] < files["observed"] < files["all"]
    assert rows_of(tmp_path / "footprint.csv")


def test_the_command_line_runs_small(tmp_path: Path) -> None:
    from benchmarks.command_line.__main__ import main

    rows = main(["--small", "--tol", "0.1", "--out", str(tmp_path)])
    assert [row["learner"] for row in rows[:2]] == ["maxmargin", "maxmargin --tol 0.1"]
    assert len(rows) == 2 + peers.available("crfsuite-lbfgs")
    assert all(row["f1"] > 0.8 and row["train_cpu"] > 0 for row in rows)
    assert rows_of(tmp_path / "command_line.csv")


def test_dual_coordinate_beside_liblinear_runs_small(tmp_path: Path) -> None:
    from benchmarks.papers.dual_coordinate.__main__ import METHODS, WEIGHTS, main, rarest_topics

    rows = main(["--small", "--repeats", "1", "--out", str(tmp_path)])
    assert len(rows_of(tmp_path / "liblinear.csv")) == len(rows) == 2 * len(WEIGHTS) * len(METHODS)
    assert all(row["reached"] for row in rows if row["method"] == "dual-coordinate")
    assert all(row["excess"] > -1e-4 for row in rows)
    # The first document has both topics and takes the rarer; the class of one document is left out.
    topics = sparse.csr_matrix([[1, 1, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    X, y = rarest_topics(np.arange(5), topics, least=2)
    assert X.tolist() == [0, 1, 2, 3] and len(set(y)) == 2 and y[0] == y[3] != y[1]


def test_flat_race_runs_small(tmp_path: Path) -> None:
    from benchmarks.race.flat import SOLVERS, TASKS, main

    rows = main(["--small", "--repeats", "1", "--relative", "0.001", "--out", str(tmp_path)])
    assert len(rows_of(tmp_path / "flat.csv")) == len(rows) == 4
    assert all(row["peer reached"] and row["ahead"] > 0 for row in rows)
    assert all(row[f"{name} ms"] > 0 for row in rows for name in [*SOLVERS, "liblinear"])
    assert (tmp_path / "flat.md").read_text().count("\n") == len(rows) + 2
    assert sum(len(weights) for _, weights in TASKS.values()) >= 20


def test_evidence_runs_small(tmp_path: Path) -> None:
    from benchmarks.race.evidence import PARTS, main
    from benchmarks.race.first import DATA, SOLVERS

    found = main(["--small", "--repeats", "1", "--out", str(tmp_path)])
    assert set(found) == set(PARTS)
    nothing, library, estimator = found["import"]
    assert 0 < nothing["cpu"] <= estimator["cpu"] and "maxmargin" in library["imported"]
    first = rows_of(tmp_path / "evidence-first.csv")
    assert [row["solver"] for row in first if row["data"] == "ocr"][: len(SOLVERS)] == list(SOLVERS)
    assert {row["data"] for row in first} == set(DATA)
    assert "liblinear" in {row["solver"] for row in first}
    assert all(row["converged"] for row in found["first"] if row["solver"] == "auto")
    assert all(row["nodes/s"] >= row["examples/s"] > 0 for row in found["predict"])
    copied, product, *passes = found["roofline"]
    assert copied["GB/s"] > 0 and product["Gop/s"] > 0
    assert all(row["of copy"] > 0 and row["of peak"] > 0 for row in passes)
    sizes = {row["data"]: row["w MB"] for row in found["memory"] if row["learner"] == "auto"}
    assert (
        not sizes or sizes["conll2000-rich"] > sizes["conll2000"] > 0
    )  # empty if the system cannot reset the peak


def test_a_quarter_of_the_memory_runs_small():
    from benchmarks.papers.streaming.quarter import main

    memory, shards = main(["--small", "--mib", "1", "--tol", "0.01"])
    assert memory["status"] == shards["status"] == "solved" and memory["weights"] > 0
    assert shards["primal"] == pytest.approx(memory["primal"], abs=500 * 0.02)
    assert min(memory["peak_mb"], shards["peak_mb"], shards["cpu_s_ratio"]) > 0


def test_streaming_runs_small(tmp_path, monkeypatch):
    from benchmarks.papers.streaming.__main__ import main

    monkeypatch.chdir(Path(__file__).parents[2])  # the child process imports the benchmarks
    results = main(["--small", "--cache-bytes", "4000000", "--out", str(tmp_path)])
    few, many = results["memory"]
    assert few["within"] and many["within"] and many["data_bytes"] > 2e7
    assert many["status"] in ("passes made", "solved")
    # Eight times the data, and no more memory than the noise of an allocator.
    assert many["peak_bytes"] - few["peak_bytes"] < 4e6
    tasks = {"covertype", "treebank-tags", "brown-tags"}
    assert {row["task"] for row in results["objective"]} == tasks
    assert all(row["converged"] for row in results["objective"] if row["passes"] == "to tol")
    assert all(row["above_optimum"] < 0.1 for row in results["objective"])
    assert len(rows_of(tmp_path / "objective.csv")) == 3 * 2
    taggers = results["cyclic"]
    assert [row["task"] for row in taggers] == ["treebank-tags"] * 2 + ["brown-tags"] * 2
    assert all(row["status"] == "solved" and abs(row.get("above", 0)) < 0.05 for row in taggers)
    speak(tmp_path, "streaming")


def test_schedules_small(tmp_path: Path) -> None:
    from benchmarks.papers.dual_coordinate.schedules import BOUNDS, SCHEDULES, SEEDS, main, says

    rows = main(["--small", "--data", "ocr", "--out", str(tmp_path)])
    assert len(rows) == len(SEEDS) * (len(SCHEDULES) + len(BOUNDS))
    assert all(row["converged"] for row in rows)
    assert says(rows) == says(rows_of(tmp_path / "schedules.csv"))


def test_pose_small(tmp_path: Path) -> None:
    from benchmarks.pose.__main__ import main
    from benchmarks.pose.measures import pck, pcp

    rows = main(["--small", "--out", str(tmp_path)])
    assert [row["method"] for row in rows][:3] == [
        "mean pose",
        "tree, all joints visible",
        "1 types",
    ]
    assert len(rows_of(tmp_path / "pose.csv")) == len(rows) == 5
    assert min(row["PCP"] for row in rows[2:]) > rows[0]["PCP"]
    truth = np.full((1, 14, 2), np.nan)
    truth[0, [12, 13]] = [[10.0, 10.0], [0.0, 10.0]]
    found = np.full((1, 14, 2), 3.0)
    found[0, [12, 13]] = [[10.0, 14.0], [5.1, 10.0]]
    assert pcp(truth, found)["PCP"] == 0.0  # the head's top is more than half a head away
    assert pck(truth, found, 0.45) == 0.5
    found[0, 13] = [4.9, 10.0]
    assert pcp(truth, found)["head"] == 1.0


def test_landmarks_small(tmp_path: Path) -> None:
    from benchmarks.landmarks.__main__ import main

    rows = main(["--small", "--out", str(tmp_path)])
    assert [row["method"] for row in rows] == ["mean position", "Tree", "Tree", "Tree"]
    assert len(rows_of(tmp_path / "landmarks.csv")) == len(rows)
    assert all(np.isfinite(row["error_px"]) for row in rows)
    assert min(row["error_px"] for row in rows[1:]) < rows[0]["error_px"]


def test_factor_graphs_run_small(tmp_path):
    from benchmarks.papers.factor_graphs.__main__ import main

    rows = main(["--small", "--out", str(tmp_path)])
    assert len(rows_of(tmp_path / "factor_graphs.csv")) == len(rows) == 3
    assert all(row["gap"] <= row["tol"] and row["proven_argmax"] > 0.5 for row in rows)


def test_confidence_runs_small(tmp_path: Path) -> None:
    from benchmarks.confidence.__main__ import brier, calibration_error, main

    out = tmp_path / "confidence.csv"
    rows = main(["--small", "--splits", "20", "--out", str(out)])
    ours = [row for row in rows if row["learner"] != "crfsuite"]
    assert [row["data"] for row in ours] == ["ocr", "ocr", "conll2000", "conll2000"]
    assert all(0 <= row["selective"] <= row["error"] + 1e-9 for row in ours)
    assert all(row["covered"] > 0.8 for row in ours)
    assert len(rows_of(out)) == len(rows)
    sure, right = np.array([0.5, 0.5, 0.9, 0.9]), np.array([1, 0, 1, 1])
    assert calibration_error(sure, right) == pytest.approx(0.05)
    found = [np.array([[0.5, 0.5]]), np.array([[0.0, 1.0]])], ["a", "b"]
    assert brier(found, [["a"], ["b"]]) == pytest.approx(0.25)
    assert brier(found, [["a"], ["c"]]) == pytest.approx((0.5 + 2) / 2)


def test_agreement_and_memory_run_small(tmp_path: Path) -> None:
    from benchmarks.faults import agreement, memory

    asked = ["--small", "--tasks", "python", "--relative", "1e-2"]
    rows = agreement.main([*asked, "--out", str(tmp_path / "agreement.csv")])
    assert [row["workers"] for row in rows] == [0, 2, 4] and all(row["agree"] for row in rows)
    (row,) = memory.main(["--small", "--out", str(tmp_path / "memory.csv")])
    assert row["converged"] and row["peak_own"] > 0
    assert rows_of(tmp_path / "agreement.csv") and rows_of(tmp_path / "memory.csv")


def test_the_scale_model_runs_small(tmp_path: Path) -> None:
    from benchmarks.scale.__main__ import main
    from benchmarks.scale.model import ORDER, Cluster, power_law

    found = main(["rounds", "loopback", "extrapolate", "--small", "--out", str(tmp_path)])
    schemes = {row["scheme"]: row for row in found["rounds"]}
    assert set(schemes) == {"design", "adding", "adding-proximal", "averaging", "one-slack"}
    assert schemes["design"]["rounds_0.01"] > 0
    # The formulas of the page are what is counted.
    row = schemes["design"]
    model = Cluster(row["parts"], row["weights"], row["examples"], 0.0)
    assert 0 < row["bundle_bytes"] <= model.driver_memory  # less where slots are free
    assert ORDER < row["bytes_to_part"] <= model.to_worker  # less where w is sparse
    assert row["bytes_from_part"] <= model.from_part + ORDER
    (real,) = found["loopback"]
    assert real["rounds_0.01"] == real["simulated"] > 0
    for who in ("driver", "scheduler"):
        assert real[f"{who}_bytes"] == pytest.approx(real[f"{who}_expected"], rel=0.25)
    assert {row["parts"] for row in found["extrapolate"]} == {32, 100, 1000}
    assert all(row["hours"] > 0 and row["rounds"] > 1 for row in found["extrapolate"])
    assert power_law([1, 2, 4], [3, 6, 12]) == pytest.approx((3.0, 1.0))
    assert rows_of(tmp_path / "rounds.csv") and rows_of(tmp_path / "extrapolated.csv")


def test_kills_run_small(tmp_path: Path) -> None:
    from benchmarks.faults.kills import main

    out = tmp_path / "kills.csv"
    rows = main(["--small", "--words", "20", "--kills", "2", "--solvers", "sda", "--out", str(out)])
    assert [(row["kills"], row["wrong"], row["left_over"]) for row in rows] == [(2, 0, 0)]
    assert len(rows_of(out)) == 1


def test_the_study_of_tolerances_runs_small(capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.tolerance.__main__ import DATA, main

    assert main(["--small"]) == 0
    said = capsys.readouterr().out
    assert all(f"{name} C=" in said and f"{name}: path" in said for name in DATA)
    assert said.count("auto") == len(DATA)


def test_the_bed_of_the_soft_rule_runs_small(tmp_path: Path) -> None:
    from benchmarks.crf.__main__ import main
    from benchmarks.crf.rule import BED, PARTS

    rows = main(["--small", "--sets", *BED, "--out", str(tmp_path)])
    assert [row["data"] for row in rows] == [name for name in BED for _ in PARTS]
    assert all(row["exponentiated reached"] and row["lbfgs reached"] for row in rows)


def test_the_log_loss_runs_small(tmp_path: Path) -> None:
    from benchmarks.crf.__main__ import CALIBRATED, CHAINS, SETS, main

    rows = main(["--small", "--peers", "lbfgs", "saga", "liblinear-7", "--out", str(tmp_path)])
    assert {row["data"] for row in rows} == {*CHAINS, *SETS, *CALIBRATED}
    ours = [row for row in rows if row["learner"].startswith("maxmargin")]
    assert len(ours) == len(CHAINS) + len(SETS)
    assert all(row["train_cpu"] > 0 and row["gap"] >= 0 for row in ours)
    for row in rows:  # a peer that reached the objective has one as low as ours
        if row["learner"].startswith("sklearn") and not row["status"]:
            own = next(other for other in ours if other["data"] == row["data"])
            assert row["primal"] <= own["primal"] and row["passes"] >= 1
    sure = [row for row in rows if row["data"] in CALIBRATED]
    assert len(sure) == 6 * len(CALIBRATED)
    assert all(0 <= row["calibration"] <= 1 and row["temperature"] > 0 for row in sure)
    assert rows_of(tmp_path / "crf.csv")
