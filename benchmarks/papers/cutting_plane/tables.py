"""The tables of Joachims, Finley and Yu; most have a part for each task."""

from __future__ import annotations

from benchmarks.papers import files
from benchmarks.papers.cutting_plane import (
    __main__ as command,
)
from benchmarks.papers.cutting_plane import (
    corollary2,
    figure1,
    figure2,
    figure6,
    figure7,
    figure8,
    liblinear,
    multivariate,
    ordinal,
    table1,
    table2,
    threads,
)
from benchmarks.papers.rows import Claims
from benchmarks.papers.table import Table

PAPER = "Joachims, Finley, Yu: Cutting-Plane Training of Structural SVMs (2009)"
NEEDS = {
    "treebank-parses": files.PARSES,
    "treebank-tags": (files.TREEBANK_TAGS,),
    "covertype": (files.COVERTYPE,),
    "brown-tags": (files.BROWN,),
}
OF_PAPER = ("treebank-parses", "treebank-tags", "covertype")
CORPORA = "Covertype is the paper's set; a tenth of the treebank replaces its parses and tags"
DAYS = "n-slack gets at most 120 s and n-slack printed 60 s; in the paper such fits took days"
LONG = "20"  # CPU seconds of a fit in a full run, unless LONGEST has another limit
OVER = ("cache", "duals", "epsilon", "weight")  # parts with a fit for each of many settings
LONGEST = {
    ("table1", "treebank-parses"): "150",
    ("table1", "treebank-tags"): "120",
    ("table1", "covertype"): "150",
    ("table1", "brown-tags"): "60",
    ("size", "covertype"): "60",
    ("size", "treebank-tags"): "120",
    ("size", "brown-tags"): "60",
    **{(part, "treebank-tags"): "60" for part in OVER},
}
# training examples of a full run; a pair that is not listed uses all examples
EXAMPLES = {
    ("table1", "brown-tags"): "1760",
    ("size", "covertype"): "100000",
    ("size", "brown-tags"): "1760",
    ("best_c", "treebank-tags"): "1760",
    **{(part, "covertype"): "20000" for part in OVER},
    **{(part, "treebank-tags"): "880" for part in OVER},
}
ALL_CLASSES = "150"  # seconds of one of our fits beside LIBLINEAR
ROW = (
    "task",
    "method",
    "n",
    "C",
    "eps",
    "cpu",
    "iterations",
    "oracle_calls",
    "support",
    "gap",
    "status",
)


def parts(
    part: str,
    what: str,
    says: Claims,
    differs: str,
    quick: dict[str, tuple[str, ...]],
    columns: tuple[str, ...] = ROW,
    tasks: tuple[str, ...] = OF_PAPER,
) -> list[Table]:
    """Return a table for each task; `quick` has the tasks of a quick run, with their arguments."""
    return [
        Table(
            f"cutting_plane/{part}/{task}",
            f"{PAPER}, {what}",
            command.main,
            full_level(part, task),
            (part, "--tasks", task, *quick[task]) if task in quick else None,
            NEEDS[task],
            differs,
            f"the part of a fit after {quick[task][-1]} s" if task in quick else "all of it",
            columns,
            says,
            ends(*full_level(part, task)),
        )
        for task in tasks
    ]


def full_level(part: str, task: str) -> tuple[str, ...]:
    """Return the arguments of a full run."""
    most = EXAMPLES.get((part, task))
    seconds = LONGEST.get((part, task), LONG)
    few = ("--examples", most) if most else ()
    return (part, "--tasks", task, *few, "--seconds", seconds)


def ends(*arguments: str) -> str:
    """Describe the rows that the limits of a full run leave out."""
    given = dict(zip(arguments[1::2], arguments[2::2], strict=True))
    most = given.get("--examples")
    few = f"the first {int(most):,} training examples; " if most else ""
    return f"{few}a fit ends after {given['--seconds']} s of CPU"


PARSES = {"treebank-parses": ("--seconds", "6")}
BRIEF = {"treebank-parses": ("--seconds", "3")}
TABLES = [
    *parts(
        "table1",
        "Table 1, and the scores of Figure 7",
        table1.says,
        f"{CORPORA}, so compare ratios. {DAYS}. The oracle's share of the time is smaller here, because "
        "the grammar comes from few sentences and the parser is compiled. `auto` is the library's default.",
        {"treebank-parses": ("--seconds", "8"), "treebank-tags": ("--seconds", "4")},
        (
            *(
                "task",
                "method",
                "n",
                "paper_n",
                "cpu",
                "paper_hours",
                "oracle_calls",
                "paper_calls",
            ),
            *(
                "support",
                "paper_support",
                "oracle_share",
                "qp_share",
                "gap",
                "test_score",
                "paper_score",
                "status",
            ),
        ),
        tuple(NEEDS),
    ),
    Table(
        "cutting_plane/table2",
        f"{PAPER}, Table 2",
        command.main,
        ("table2",),
        ("table2", "--sets", *table2.TASKS[1:]),
        (files.COVERTYPE, files.NEWS, files.RCV1),
        "Covertype is one of the paper's five sets; newsgroups and a subset of RCV1 replace its texts. "
        "LIBSVM replaces SVM-light. LIBLINEAR is added; the paper does not have it.",
        "covertype",
        ("task", "method", "n", "N", "C", "cpu", "primal", "support", "oracle_calls"),
        table2.says,
        f"LIBSVM gets the first {table2.MOST_FOR_LIBSVM:,} examples of each set",
    ),
    *parts(
        "size",
        "Figures 1, 3, 4 and 5",
        figure1.says,
        f"{CORPORA}, so compare slopes. {DAYS}.",
        PARSES,
        ROW,
        tuple(NEEDS),
    ),
    *parts(
        "best_c",
        "Figure 2",
        figure2.says,
        f"{CORPORA}, so compare slopes. Three values of C are tried for each size.",
        {},
        ("task", "method", "n", "C", "cpu", "oracle_calls", "test_score", "status"),
    ),
    *parts(
        "cache",
        "Figure 6",
        figure6.says,
        f"{CORPORA}, so compare slopes.",
        BRIEF,
        ("task", "cache", "n", "cpu", "iterations", "oracle_calls", "gap", "status"),
    ),
    *parts(
        "duals",
        "Figure 7",
        figure7.says,
        f"{CORPORA}. {DAYS}.",
        PARSES,
        (
            *("task", "n", "C", "dual", "n_slack_dual", "relative_difference", "allowed"),
            *("to_learn", "test_score", "n_slack_test_score", "status"),
        ),
    ),
    *parts("epsilon", "Figure 8", figure8.says_epsilon, f"{CORPORA}, so compare slopes.", PARSES),
    *parts("weight", "Figure 9", figure8.says_weight, f"{CORPORA}, so compare slopes.", PARSES),
    Table(
        "cutting_plane/corollary2",
        f"{PAPER}, Corollary 2",
        command.main,
        ("corollary2",),
        ("corollary2",),
        files.USPS,
        "The paper has a bound and no numbers.",
        "nothing",
        says=corollary2.says,
    ),
    Table(
        "cutting_plane/ordinal",
        f"{PAPER}, Section 3.2: ordinal regression as in Joachims (2006)",
        command.main,
        ("ordinal",),
        ("ordinal",),
        files.GRADES,
        "The paper names the method and has no numbers. The data here are grades of documents.",
        "nothing",
        says=ordinal.says,
    ),
    *parts(
        "threads",
        "Section 4, parallelisation",
        threads.says,
        "The paper has an expectation and no numbers. Epsilon is 30 times the paper's. Wall-clock "
        "times of a busy machine are not reliable.",
        {},
        ("task", "threads", "load", "wall", "cpu", "oracle_share", "iterations", "status"),
        ("treebank-parses", "treebank-tags"),
    ),
    Table(
        "cutting_plane/liblinear",
        f"{PAPER}: covertype beside LIBLINEAR",
        command.main,
        ("liblinear", "--tasks", "covertype", "--seconds", ALL_CLASSES),
        None,
        (files.COVERTYPE,),
        "The paper compares only two classes (Table 2). Here all methods learn seven, with one objective.",
        "all of it",
        ("method", "n", "C", "cpu", "primal", "excess", "iterations", "oracle_calls", "status"),
        liblinear.says,
        f"a fit of ours ends after {ALL_CLASSES} s of CPU",
    ),
    Table(
        "cutting_plane/multivariate",
        f"{PAPER}: trained for F1",
        multivariate.main,
        (),
        ("--data", "newsgroups", "--train", "5000"),
        (files.NEWS, files.COVERTYPE),
        "The paper names losses of the whole sample and has no numbers for them.",
        "covertype; newsgroups beyond 5,000 documents",
        says=multivariate.says,
        full_ends="the first 100,000 training examples of covertype",
    ),
]
