"""The papers' tables and figures run on synthetic stand-ins, and their rows make the results page."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.svm import LinearSVC

# The benchmarks are a folder of the repository and are not in the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import datasets

from benchmark_cases import rows_of, speak


def test_fasole_table_runs_small(tmp_path: Path) -> None:
    from benchmarks.papers.fasole.__main__ import main

    main(["--small", "--out", str(tmp_path)])
    rows = rows_of(tmp_path / "table2.csv")
    assert len(rows) == 4 * 4 * 4  # tables, methods, lambdas
    assert any(row["converged"] == "True" for row in rows if row["method"] == "fasole")
    assert (tmp_path / "table2.png").stat().st_size > 0


def test_curves_of_fasoles_figure_bracket_the_optimum(tmp_path: Path) -> None:
    from benchmarks.papers.fasole.__main__ import main

    rows = main(["--small", "--part", "figure1", "--data", "usps", "--out", str(tmp_path)])
    assert {row["method"] for row in rows} == {"fasole", "sdm", "bcfw", "cpa"}
    assert min(row["distance"] for row in rows) >= 0
    assert all(row["gap"] >= 0 and row["primal"] >= row["dual"] for row in rows)
    assert (tmp_path / "figure1.png").stat().st_size > 0


def test_cutting_planes_run_small(tmp_path: Path) -> None:
    from benchmarks.papers.cutting_plane.__main__ import PARTS, main
    from benchmarks.papers.cutting_plane.tasks import TASKS

    results = main(["--small", "--out", str(tmp_path)])
    assert list(results) == list(PARTS)
    for part, rows in results.items():
        assert rows_of(tmp_path / f"{part}.csv")
        if part not in ("table2", "corollary2", "ordinal", "liblinear"):
            assert {row["task"] for row in rows} == set(TASKS)
        assert all(row["gap"] <= row["eps"] for row in rows if "gap" in row and "eps" in row)
    assert any(row["method"].startswith("liblinear") for row in results["liblinear"])
    for row in results["table1"]:
        assert 0 <= row["test_score"] <= 100
        assert row["method"] == "auto" or 0 <= row["oracle_share"] + row["qp_share"] <= 1.01
    primals = {row["method"]: row["primal"] for row in results["table2"]}
    assert primals["1-slack"] == pytest.approx(primals["liblinear"], rel=0.01)
    # LIBSVM also fits an intercept
    assert primals["libsvm"] == pytest.approx(primals["auto"], rel=0.05)
    for row in results["duals"]:
        assert abs(row["relative_difference"]) <= row["allowed"] * (1 + 1e-9)
    exact, *basis = results["corollary2"]
    assert exact["rank"] is None and all(
        row["primal"] >= (1 - 1e-9) * (exact["primal"] - exact["gap"] * 1e4) for row in basis
    )
    for name in ("size", "best_c", "cache", "duals", "epsilon", "weight", "corollary2"):
        assert (tmp_path / f"{name}.png").stat().st_size > 0
    # multivariate is a separate command, tested below
    speak(tmp_path, "cutting_plane", but="multivariate")


def test_ordinal_regression_counts_pairs_as_a_loop_does_and_ends_where_all_pairs_do() -> None:
    from benchmarks.papers.cutting_plane.ordinal import differences, fitted, pairs, wrong_pairs

    rng = np.random.default_rng(0)
    grades = rng.integers(0, 4, 30).astype(float)
    scores = (4 * rng.normal(size=30)).round() / 4  # with ties, and with exact differences
    for margin in (0.0, 1.0):
        expected = np.zeros((30, 2))
        for i, j in zip(*np.nonzero(grades[:, None] > grades[None, :]), strict=True):
            if scores[i] - scores[j] < margin:
                expected[i, 0] += 1
                expected[j, 1] += 1
        np.testing.assert_array_equal(wrong_pairs(scores, grades, margin), expected)
    X = rng.normal(size=(30, 5)) + grades[:, None] * 0.3
    D, signs = differences(X, grades)
    assert len(signs) == pairs(grades)
    svm = fitted(X, grades, C=10.0, eps=1e-6)
    every = LinearSVC(
        C=10.0 / len(signs), loss="hinge", dual=True, fit_intercept=False, tol=1e-8, max_iter=10**6
    ).fit(D, signs)

    def primal(w: np.ndarray) -> float:
        return 0.5 * w @ w + 10.0 * np.maximum(0, 1 - signs * (D @ w)).mean()

    assert svm.certificate_.primal == pytest.approx(primal(svm.coef_), rel=1e-9)
    assert primal(svm.coef_) == pytest.approx(primal(every.coef_.ravel()), rel=1e-5)


def test_f1_against_error_runs_small(tmp_path):
    from benchmarks.papers.cutting_plane.multivariate import METHODS, best_threshold, main, says

    rows = main(["--small", "--out", str(tmp_path)])
    assert {row["method"] for row in rows} == set(METHODS)
    assert all(0 <= row["test_f1"] <= 1 for row in rows)
    assert len(rows_of(tmp_path / "multivariate.csv")) == len(rows) == 2 + 8 + 2
    (said,) = says(rows_of(tmp_path / "multivariate.csv"))
    assert "trained for the error " in said and "; for F1 " in said
    # At the best F1 the two highest scores are positive.
    scores = np.array([0.1, 0.4, 0.35, 0.8])
    assert best_threshold(scores, np.array([0, 1, 0, 1])) == 0.4


def test_large_domains_run_small(tmp_path):
    from benchmarks.papers.gdmm import claims
    from benchmarks.papers.gdmm.__main__ import main

    results = main(["--small", "--out", str(tmp_path)])
    few, more = (row["labels"] for row in results["domain"])
    assert few < more
    assert all(row["followed_us"] > 0 for row in results["domain"])
    tasks = {"treebank", "czech", "pinyin-200", "pinyin-20000"}
    assert {row["task"] for row in results["curves"]} == tasks
    for row in results["curves"] + results["labels"]:
        assert row["dual"] <= row["primal"] * (1 + 1e-9)
    assert {row["method"] for row in results["labels"] if row["relaxed"]} >= {"gdmm"}
    for row in results["many"]:  # estimates for all methods, a proof only for gdmm
        assert row["sampled"] > row["sampled_error"] > 0
        assert (row["primal"] >= row["dual"]) == (row["method"] == "gdmm")
    (oracle,) = results["oracle"]
    assert oracle["labels"] == 6 and oracle["pairs"] == 15 and oracle["looks"] > 0
    assert {row["method"] for row in results["iterations"]} >= {
        "gdmm",
        "soft-bcfw, rho 1",
        "algorithm 2 as printed",
        "algorithm 3 as printed",
    }
    assert all(row["factor_of_ten_passes"] > 0 for row in results["rates"])
    for name in ("labels", "oracle", "iterations"):
        assert rows_of(tmp_path / f"{name}.csv") and (tmp_path / f"{name}.png").stat().st_size > 0
    (whole,) = results["whole"]
    assert whole["accuracy"] > whole["most_frequent"] > 0
    assert rows_of(tmp_path / "whole.csv")
    speak(tmp_path, "gdmm")
    assert len(claims.labels(rows_of(tmp_path / "oracle.csv"))) == 1
    assert "+-" in claims.many(rows_of(tmp_path / "many.csv"))[0]
    assert len(claims.iterations(rows_of(tmp_path / "rates.csv"))) == len(results["rates"])
    for name in ("domain", "curves"):
        assert rows_of(tmp_path / f"{name}.csv")
        assert (tmp_path / f"{name}.png").stat().st_size > 0


def test_summed_error_runs_small(tmp_path: Path) -> None:
    from benchmarks.papers.summed_error import figure1
    from benchmarks.papers.summed_error.__main__ import PARTS, main
    from benchmarks.papers.summed_error.ocr import ACCURACY, SECONDS, entry

    results = main(["--small", "--folds", "0", "--out", str(tmp_path)])
    assert list(results) == list(PARTS)
    for part in PARTS:
        assert rows_of(tmp_path / f"{part}.csv")
    rows = results["ocr"]
    assert len(rows) == 3 * 5  # weights, methods
    assert all(row["finished"] for row in rows)
    whole = [row for row in rows if row["method"] == "sdcd, all violators"]
    assert all(row["status"] == "solved" and row["gap"] <= 0.01 for row in whole)
    for row in rows:  # the optimum of a reduced problem is not larger
        top = next(other for other in whole if other["C"] == row["C"])
        assert row["dual"] <= top["primal"] * (1 + 1e-12)
    assert min(row["distance"] for row in results["figure1"]) == 0
    assert any("accuracy" in row for row in results["figure2"])
    assert {row["method"] for row in results["figure1"]} == set(figure1.METHODS)
    assert [row["method"] for row in results["table5"]] == ["sdcd", "sdm"] * 2
    assert all(row["violators"] >= row["support"] for row in results["table5"])
    assert [row["task"] for row in results["sizes"]] == ["treebank-tags", "brown-tags"]
    for name in ("figure1", "figure2"):
        assert (tmp_path / f"{name}.png").stat().st_size > 0
    speak(tmp_path, "summed_error")
    assert entry(ACCURACY, "sdcd", 0.01, 0) == 74.43
    assert entry(SECONDS, "cutting planes", 1.0, 9) == 3822.71


def test_papers_make_a_page_and_go_on_where_they_stopped(tmp_path, capsys, monkeypatch):
    from benchmarks.papers import tables
    from benchmarks.papers.__main__ import main

    few = ["--out", str(tmp_path), "--only", "fasole/table2/usps"]
    few += ["dual_coordinate/liblinear", "dual_coordinate/schedules"]
    assert main(["--small", *few]) == 0
    page = (tmp_path / "index.md").read_text()
    assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == [
        table.name for table in tables.TABLES
    ]
    assert "paper_passes" in page and "![table2](fasole/table2/usps/table2.png)" in page
    assert "Stand-ins for the data" in page and "Not made yet." in page
    shown = (tmp_path / "index.html").read_text()
    assert '<img src="fasole/table2/usps/table2.png"' in shown and shown.count("<table>") == 4

    # A finished table stays; a table without its last file is made again.
    (tmp_path / "fasole/table2/usps/done.json").unlink()
    kept = (tmp_path / "dual_coordinate/liblinear/liblinear.csv").stat().st_mtime_ns
    capsys.readouterr()
    published = tmp_path / "RESULTS.md"
    assert main(["--small", *few, "--publish", str(published)]) == 0
    assert "dual_coordinate/liblinear: done before" in capsys.readouterr().out
    alone = published.read_text()  # only finished tables, without links to missing files
    assert "paper_passes" in alone and "Not made yet." not in alone and "](" not in alone
    assert (tmp_path / "fasole/table2/usps/done.json").is_file()
    assert (tmp_path / "dual_coordinate/liblinear/liblinear.csv").stat().st_mtime_ns == kept

    # Rows of stand-ins do not replace rows of the real data, and the message names missing files.
    monkeypatch.setenv(datasets.VARIABLE, str(tmp_path))
    assert main(["--quick", *few]) == 1
    out = capsys.readouterr().out
    assert "fasole/table2/usps: needs usps/zip.train.gz, usps/zip.test.gz" in out
    with pytest.raises(SystemExit):
        main(["--only", "no such table"])


def test_numbers_of_the_page() -> None:
    from benchmarks.papers.page import shown

    given = ["3.0", "0.123456", "1e12", "inf", "-inf", "nan", "a|b"]
    assert [shown(each) for each in given] == ["3", "0.1235", "1e+12", "inf", "-inf", "nan", "a/b"]


def test_every_table_says_what_differs_and_what_a_quick_run_leaves_out() -> None:
    from benchmarks.papers.tables import TABLES

    names = [table.name for table in TABLES]
    assert len(set(names)) == len(names)
    for table in TABLES:
        assert table.differs and table.differs.endswith(".")
        assert table.quick in (None, table.full) or table.quick_leaves_out


def test_claims_of_fasole_follow_from_the_rows() -> None:
    from benchmarks.papers.fasole.claims import claims

    def row(method: str, passes: float, converged: bool, ratio: float) -> dict[str, str]:
        given = {"data": "usps", "inputs": "raw", "method": method, "lambda": "0.01"}
        given |= {"cpu": str(passes), "paper_passes": "10", "paper_seconds": "5"}
        return given | {"passes": str(passes), "converged": str(converged), "ratio": str(ratio)}

    rows = [row("fasole", 5, True, 1.0), row("sdm", 5, True, 0.4), row("bcfw", 197, True, 1.0)]
    first, sdm, cpa, added, bcfw = claims([*rows, row("cpa", 300, False, 1.5)])
    assert "passes of cpa / fasole 60 (the paper 1)" in added
    assert "for 1 of 1 lambda (0.01)" in first and ": 1.0." in sdm
    assert "60.0 (not at the gap)" in cpa and "for lambda 0.01." in bcfw
    (far, *_) = claims([row("fasole", 9, True, 1.8), *rows[1:], row("cpa", 300, True, 1.5)])
    assert "for 0 of 1 lambda (none)" in far


def test_a_published_page_keeps_what_a_folder_lacks_or_has_at_a_lower_level(tmp_path: Path) -> None:
    from benchmarks.papers.page import section
    from benchmarks.papers.publish import publish
    from benchmarks.papers.table import Table
    from benchmarks.timing import write_csv

    def table(name: str, number: float, **more: str) -> Table:
        def command(arguments: list[str]) -> None:
            write_csv(Path(arguments[-1]) / "rows.csv", [{"number": number}])

        return Table(name, "Paper", command, (), ("--quick",), (), "Differs.", "half", **more)

    page = tmp_path / "RESULTS.md"
    first = [table("a", 1.0, full_ends="a fit ends after 9 s"), table("b", 2.0), table("c", 3.0)]
    first[0].make(tmp_path / "one", "full")
    first[1].make(tmp_path / "one", "quick")
    publish(first, tmp_path / "one", "quick", page)
    text = page.read_text()
    assert "| a | full |" in text and "| b | quick |" in text and "| c | no |" in text
    assert "| all | 2 of 3 |" in text and "## c" not in text
    assert "Full run; a fit ends after 9 s." in text and "Quick run; left out: half." in text

    # The second folder has a at a lower level, b again, and c for the first time; d was never made.
    second = [table(name, number) for name, number in (("c", 30.0), ("b", 20.0), ("a", 10.0))]
    for each in second:
        each.make(tmp_path / "two", "quick")
    publish([*second, table("d", 4.0)], tmp_path / "two", "quick", page)
    text = page.read_text()
    headings = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["c", "b", "a"] and "| all | 3 of 4 |" in text
    assert "| 30 |" in text and "| 20 |" in text and "| 1 |" in text and "| 10 |" not in text
    assert "\n\n\n" not in text and section(second[0], tmp_path / "two", "quick")[0] == "## c"

    # Publishing again changes nothing; a section without a table disappears.
    publish([*second, table("d", 4.0)], tmp_path / "two", "quick", page)
    assert page.read_text() == text
    publish(second[:2], tmp_path / "two", "quick", page)
    assert "## a" not in page.read_text() and "| all | 2 of 2 |" in page.read_text()


def test_long_tables_show_some_of_every_curve() -> None:
    from benchmarks.papers.page import MOST_ROWS, thinned

    def curve(method: str, points: int) -> list[dict[str, str]]:
        return [{"method": method, "step": str(k)} for k in range(points)]

    few = curve("a", MOST_ROWS // 2) + curve("b", MOST_ROWS // 2)
    assert thinned(few) == few
    some = thinned(curve("a", 300) + curve("b", 3))
    assert len(some) == MOST_ROWS // 2 + 3 and some[-3:] == curve("b", 3)
    assert some[-4] == {"method": "a", "step": "299"}  # the end of the longer curve
    ends = thinned([row for k in range(2 * MOST_ROWS) for row in curve(str(k), 2)])
    assert [row["step"] for row in ends] == ["1"] * (2 * MOST_ROWS)


def test_a_folder_of_an_earlier_version_has_no_day() -> None:
    from benchmarks.papers.page import spent

    made = {"level": "full", "wall_seconds": 3.0, "cpu_seconds": 2.0}
    assert spent(made) == "full: 3.0 s, of which CPU 2.0 s"
    assert spent(made | {"date": "2026-11-16"}).startswith("full on 2026-11-16: 3.0 s")


def test_limits_of_full_runs_are_on_the_page() -> None:
    """The page states the limits of a full run, and whether it times only once."""
    from benchmarks.papers.page import extent
    from benchmarks.papers.tables import TABLES

    for table in TABLES:
        full = dict(zip(table.full, table.full[1:], strict=False))
        said = extent(table, "full")
        for option in ("--seconds", "--examples"):
            if option in full and full[option] != "600":
                assert f"{int(full[option]):,} " in said, table.name
        if "--repeats" in full:
            assert "timed once" in said, table.name
    (labels,) = (table for table in TABLES if table.name == "gdmm/labels")
    assert "a method ends after 4 to 8 s of CPU (by task), even inside a step" in extent(
        labels, "full"
    )


def test_fits_that_did_not_end_are_not_counted_as_solved() -> None:
    from benchmarks.papers.cutting_plane import figure6, figure7, table1

    def row(method: str, status: str, **more: float) -> dict[str, str]:
        given = {"task": "covertype", "method": method, "status": status}
        numbers = {"cpu": 2.0, "oracle_calls": 10, "support": 5, "gap": 0.5, "eps": 0.001} | more
        return given | {name: str(value) for name, value in numbers.items()}

    rows = [row("1-slack cache", "solved", gap=1e-4), row("n-slack", "time limit")]
    said = table1.says([*rows, row("auto", "solved", cpu=1.0)])
    ended = [each for each in said if "was ended by its time limit" in each]
    assert "n-slack (not finished) took 1 times the CPU time" in said[0]
    assert len(ended) == 1 and "at a gap of 0.5, 500 times the requested gap" in ended[0]
    assert any("`auto` takes 1 s, 1-slack 2 times as much" in each for each in said)
    caches = [row(f"cache of {k}", "solved", cache=k, oracle_calls=30 - k) for k in (0, 5)]
    late, ratios, _ = figure6.says([*caches, row("cache of 10", "time limit", cache=10)])
    assert late.endswith("with a cache of 10.") and "a cache of 5: 1.2, 1." in ratios
    duals = {"relative_difference": -0.5, "allowed": 2.0, "to_learn": 9.0, "C": 10.0}
    duals |= {"test_score": 90.0, "n_slack_test_score": 91.0}
    loose = figure7.says([row("both", "solved", **duals)])
    assert any("up to 2 times n-slack's dual" in each for each in loose)


@pytest.mark.parametrize("method", ["n-slack printed", "1-slack cache"])
def test_a_limit_of_cpu_time_ends_a_step_in_the_middle(method: str) -> None:
    from benchmarks.papers.cutting_plane.measure import measure
    from benchmarks.papers.cutting_plane.tasks import TASKS

    task = TASKS["covertype"](True)
    row = measure(task, method, seconds=0.0)
    assert row["status"] == "time limit" and row["gap"] > row["eps"]
    # The exact pass of the certificate, and the calls before the first program was solved.
    asked = 1 if method == "n-slack printed" else 0  # 1-slack counts only whole rounds
    assert row["oracle_calls"] == task.size + asked
