"""All tables and figures, in the order of the page."""

from __future__ import annotations

from benchmarks.papers import files
from benchmarks.papers.cutting_plane.tables import TABLES as CUTTING_PLANE
from benchmarks.papers.dual_coordinate import __main__ as dual_coordinate
from benchmarks.papers.dual_coordinate import schedules
from benchmarks.papers.factor_graphs import __main__ as factor_graphs
from benchmarks.papers.fasole.tables import TABLES as FASOLE
from benchmarks.papers.gdmm import __main__ as gdmm
from benchmarks.papers.gdmm import claims as gdmm_claims
from benchmarks.papers.gdmm.tasks import CZECH as CZECH_PARTS
from benchmarks.papers.streaming import __main__ as streaming
from benchmarks.papers.streaming import claims as streaming_claims
from benchmarks.papers.summed_error.tables import TABLES as SUMMED_ERROR
from benchmarks.papers.table import Table
from benchmarks.pose import __main__ as pose

SETS = tuple(f"multilabel/{name}.npz" for name in factor_graphs.SETS)
CZECH = tuple(
    f"ud_czech/cs_{name}.conllu.gz"
    for name in (file for part in CZECH_PARTS.values() for file in part)
)
TAGS = (files.TREEBANK_TAGS, files.BROWN)
DUAL = "Ramanan: Dual Coordinate Solvers for Large-Scale Structural SVMs"
GDMM = "Yen et al.: Dual Decomposed Learning with Factorwise Oracles (2016)"
LONG = "30"  # CPU seconds of a fit over shards
OTHER_SET = "The paper has no numbers for this data."


TABLES = (
    *FASOLE,
    *CUTTING_PLANE,
    *SUMMED_ERROR,
    Table(
        "dual_coordinate/liblinear",
        f"{DUAL}: beside LIBLINEAR",
        dual_coordinate.main,
        ("--repeats", "1"),
        ("--tasks", "newsgroups-binary", "newsgroups", "--repeats", "1"),
        (files.NEWS, files.RCV1),
        OTHER_SET,
        "RCV1",
        says=dual_coordinate.says,
        full_ends="a fit is timed once; the command alone takes the best of three",
    ),
    Table(
        "dual_coordinate/schedules",
        f"{DUAL}: schedules, pruning and upper bounds",
        schedules.main,
        (),
        ("--n", "1000"),
        (files.OCR, *files.USPS),
        "The paper has no table. It says that the running bound saves a factor of 2, and that gap scheduling "
        "is ahead of other schedules.",
        "all but the first 1000 examples",
        says=schedules.says,
    ),
    Table(
        "dual_coordinate/pose",
        f"{DUAL}: joints of people, by a tree whose parts have hidden types",
        pose.main,
        ("--passes", "40"),
        None,
        (files.POSES,),
        "The paper names part models and has no numbers for this data. There are 300 training images and "
        "100 test images. All rounds of a method make at most 40 passes.",
        "all of it",
        ("method", "images", *pose.SHARES, "rounds", "passes", "gap", "cpu_s"),
        pose.says,
    ),
    *(
        Table(
            f"streaming/{part}",
            f"{DUAL}, Algorithm 2: {what}",
            streaming.main,
            ("--parts", part, "--seconds", LONG),
            ("--parts", part, *quick),
            needs,
            "The paper has no such table.",
            left_out,
            says=getattr(streaming_claims, part),
            full_ends=f"a fit over shards ends after {LONG} s of CPU",
        )
        for part, what, quick, needs, left_out in (
            ("memory", "memory of one pass", ("--gigabytes", "0.2"), (), "0.2 GB instead of 2"),
            (
                "objective",
                "objective of one pass",
                ("--tasks", "treebank-tags", "--weights", "50"),
                (files.COVERTYPE, *TAGS),
                "covertype and Brown; larger C",
            ),
            (
                "cyclic",
                "cyclic passes with a small cache",
                ("--keeps", "outputs"),
                TAGS[:1],
                "a cache of whole examples",
            ),
        )
    ),
    Table(
        "factor_graphs/graphs",
        f"{GDMM}, tasks with hard inference, by the other solvers",
        factor_graphs.main,
        (),
        (),
        ("snakes/snakes.npz", *SETS, files.RCV1),
        OTHER_SET,
    ),
    *(
        Table(
            f"gdmm/{part}",
            f"{GDMM}, {what}",
            gdmm.main,
            ("--parts", part),
            quick and ("--parts", part, "--tasks", *quick, "--seconds", "2"),
            needs,
            differs,
            left_out,
            says=getattr(gdmm_claims, part, None),
            full_ends=gdmm.ends(part),
        )
        for part, what, quick, needs, differs, left_out in (
            (
                "domain",
                "cost of an oracle against the number of labels",
                None,
                files.PINYIN,
                "The paper compares only with full Viterbi; `followed` is an exact argmax that follows "
                "stored transitions.",
                "all of it",
            ),
            (
                "curves",
                "Figure 2 (chains)",
                ("treebank",),
                (*TAGS, *files.PINYIN, *CZECH),
                "The paper's BCFW uses full Viterbi (`bcfw-full` here); the other methods have an exact "
                "argmax that follows stored transitions, so their order may differ from the paper's.",
                "Czech and pinyin; the part of a fit after 2 s",
            ),
            ("whole", "all of the pinyin task", None, files.PINYIN, OTHER_SET, "all of it"),
            (
                "labels",
                "Figures 2 and 3 (sets of labels)",
                ("yeast", "medical"),
                (*SETS, files.RCV1),
                "The data sets are different; a subset of RCV1 with 101 labels replaces RCV1-regions (228).",
                "enron and RCV1; the part of a fit after 2 s",
            ),
            (
                "many",
                "Figure 3 (sets of many labels)",
                None,
                ("multilabel/delicious.npz",),
                "Delicious (983 labels) replaces EUR-Lex, with its first 100 training examples and with "
                "all 12,920. Its argmax is a search that takes seconds for each example; roof duality "
                "takes 0.1 to 0.4 s. So the objective of all examples is estimated on 25 of them.",
                "all of it",
            ),
            (
                "iterations",
                "Figure 2 (passes and time) and Theorems 1 and 2 (the rate)",
                ("yeast",),
                (*TAGS, *files.PINYIN, *SETS),
                "The data sets are different. The table compares the algorithms as printed with exact steps "
                "of single factors.",
                "treebank and pinyin; the part of a fit after 2 s",
            ),
        )
    ),
)
