"""All tables and figures, in the order of the page."""

from __future__ import annotations

from benchmarks.papers.cutting_plane import __main__ as cutting_plane
from benchmarks.papers.cutting_plane import multivariate
from benchmarks.papers.dual_coordinate import __main__ as dual_coordinate
from benchmarks.papers.factor_graphs import __main__ as factor_graphs
from benchmarks.papers.fasole import __main__ as fasole
from benchmarks.papers.gdmm import __main__ as gdmm
from benchmarks.papers.gdmm.tasks import CZECH as CZECH_PARTS
from benchmarks.papers.streaming import __main__ as streaming
from benchmarks.papers.summed_error import __main__ as summed_error
from benchmarks.papers.table import Table

OCR = "ocr_letters/ocr_letters.npz"
USPS = ("usps/zip.train.gz", "usps/zip.test.gz")
FACES = "faces68/faces68.npz"
COVERTYPE = "covtype/covtype.csv.gz"
TAGS = ("treebank/treebank.dep.gz", "brown/brown.tsv.gz")
PARSES = ("treebank/treebank.mrg.gz", "treebank/files.tsv")
NEWS, RCV1 = "newsgroups20/newsgroups20.npz", "rcv1_subsets/rcv1sub1.npz"
SETS = tuple(f"multilabel/{name}.npz" for name in factor_graphs.SETS)
PINYIN = ("pinyin_pku/train.tsv.gz", "pinyin_pku/test.tsv.gz")
CZECH = tuple(
    f"ud_czech/cs_{name}.conllu.gz"
    for name in (file for part in CZECH_PARTS.values() for file in part)
)

CUTTING = "Joachims, Finley, Yu: Cutting-Plane Training of Structural SVMs (2009)"
FASOLE = "Franc: FASOLE, Fast Algorithm for Structured Output Learning (2014)"
SUMMED = "Balamurugan, Shevade, Babu: Linear Summed Error Structural SVMs"
DUAL = "Ramanan: Dual Coordinate Solvers for Large-Scale Structural SVMs"
GDMM = "Yen et al.: Dual Decomposed Learning with Factorwise Oracles (2016)"
OTHER_TAGS = "The corpora are other ones than the paper's, and smaller."
OTHER_SET = "The paper has no numbers for this data."


def of_cutting_plane(part: str, what: str, differs: str) -> Table:
    """A part of the cutting-plane paper."""
    return Table(
        f"cutting_plane/{part}",
        f"{CUTTING}, {what}",
        cutting_plane.main,
        (part,),
        (part, "--tasks", "treebank-tags", "--seconds", "10"),
        (COVERTYPE, *TAGS, *PARSES),
        differs,
        "covertype, Brown and the parses; 10 s for a fit",
    )


TABLES = (
    Table(
        "fasole/table2",
        f"{FASOLE}, Table 2",
        fasole.main,
        (),
        ("--lambdas", "1", "0.1", "--seconds", "30", "--data", "usps", "ocr"),
        (OCR, *USPS, FACES),
        "CPU seconds here, wall-clock time of Matlab there. faces68 (500 faces, 8 landmarks, local binary "
        "patterns) is beside the paper's LANDMARK: other images, so that only the order of the methods can "
        "be compared. What the rows say of the paper's claims is computed from them, below the table.",
        "faces68; lambda 0.01 and 0.001; 30 s for a fit",
        (
            "data",
            "inputs",
            "method",
            "lambda",
            "passes",
            "paper_passes",
            "cpu",
            "paper_seconds",
            "gap",
            "converged",
        ),
    ),
    Table(
        "fasole/figure1",
        f"{FASOLE}, Figure 1",
        fasole.main,
        ("--part", "figure1"),
        ("--part", "figure1", "--seconds", "3"),
        (OCR, *USPS, FACES),
        "The paper has curves and no numbers; its last panels are of LANDMARK.",
        "what comes after 3 s of a method",
    ),
    of_cutting_plane(
        "table1",
        "Table 1",
        "Treebank and Brown stand for the paper's corpora, so that times and numbers of planes are not to be "
        "compared one by one; the order of 1-slack and n-slack is. n-slack is given 120 s, where the paper's "
        "took days.",
    ),
    of_cutting_plane("size", "Figures 1, 3 and 5", "Other data: compare the slopes."),
    of_cutting_plane("epsilon", "Figure 8", "Other data: compare the slopes."),
    of_cutting_plane("weight", "Figure 9", "Other data: compare the slopes."),
    Table(
        "cutting_plane/liblinear",
        f"{CUTTING}, Table 2 (beside LIBLINEAR)",
        cutting_plane.main,
        ("liblinear", "--tasks", "covertype"),
        None,
        (COVERTYPE,),
        "All seven classes of covertype, where the paper has one of them against the rest.",
        "all of it",
    ),
    Table(
        "cutting_plane/multivariate",
        f"{CUTTING}: trained for F1",
        multivariate.main,
        (),
        ("--data", "newsgroups", "--train", "5000"),
        (NEWS, COVERTYPE),
        OTHER_SET,
        "covertype",
    ),
    Table(
        "summed_error/ocr",
        f"{SUMMED}, Tables III and IV",
        summed_error.main,
        ("ocr",),
        ("ocr", "--folds", "0", "--weights", "0.1"),
        (OCR,),
        "Times are of another machine; accuracies can be compared one by one.",
        "nine of the ten folds; C = 0.01 and 1",
        ("fold", "C", "method", "cpu", "paper_seconds", "accuracy", "paper_accuracy", "finished"),
    ),
    Table(
        "summed_error/figure1",
        f"{SUMMED}, Figure 1",
        summed_error.main,
        ("figure1",),
        None,
        (COVERTYPE, NEWS),
        "Newsgroups in place of Sector; the loss is not scaled by ten for cutting planes, as it is in the "
        "paper.",
        "all of it",
    ),
    *(
        Table(
            f"summed_error/{part}",
            f"{SUMMED}, {what}",
            summed_error.main,
            (part,),
            None,
            TAGS,
            OTHER_TAGS,
            "all of it",
        )
        for part, what in (("figure2", "Figure 2"), ("table5", "Table V"))
    ),
    Table(
        "dual_coordinate/liblinear",
        f"{DUAL}: beside LIBLINEAR",
        dual_coordinate.main,
        (),
        ("--tasks", "newsgroups-binary", "newsgroups", "--repeats", "1"),
        (NEWS, RCV1),
        OTHER_SET,
        "RCV1; two of three repetitions",
    ),
    *(
        Table(
            f"streaming/{part}",
            f"{DUAL}, Algorithm 2: {what}",
            streaming.main,
            ("--parts", part),
            ("--parts", part, *quick),
            needs,
            "The paper has no such table.",
            left_out,
        )
        for part, what, quick, needs, left_out in (
            ("memory", "memory of one pass", ("--gigabytes", "0.2"), (), "0.2 GB instead of 2"),
            (
                "objective",
                "objective of one pass",
                ("--tasks", "treebank-tags"),
                (COVERTYPE, *TAGS),
                "covertype and Brown",
            ),
            ("cyclic", "cyclic passes with a small cache", (), TAGS[:1], ""),
        )
    ),
    Table(
        "factor_graphs/graphs",
        f"{GDMM}, tasks with hard inference, by the other solvers",
        factor_graphs.main,
        (),
        ("--tasks", "yeast"),
        ("snakes/snakes.npz", *SETS, RCV1),
        OTHER_SET,
        "all but yeast",
    ),
    *(
        Table(
            f"gdmm/{part}",
            f"{GDMM}, {what}",
            gdmm.main,
            ("--parts", part),
            quick and ("--parts", part, "--tasks", *quick),
            needs,
            differs,
            left_out,
        )
        for part, what, quick, needs, differs, left_out in (
            (
                "domain",
                "cost of an oracle against the number of labels",
                None,
                PINYIN,
                "The paper compares with full Viterbi alone; `followed` is an exact argmax that follows "
                "stored transitions.",
                "all of it",
            ),
            (
                "curves",
                "Figure 2 (chains)",
                ("treebank",),
                (*TAGS, *PINYIN, *CZECH),
                "The paper's BCFW uses full Viterbi (`bcfw-full` here); the other methods have an exact "
                "argmax that follows stored transitions, so that their order need not be the paper's.",
                "Czech and pinyin",
            ),
            ("whole", "all of the pinyin task", None, PINYIN, OTHER_SET, "all of it"),
            (
                "labels",
                "Figures 2 and 3 (sets of labels)",
                ("yeast", "medical"),
                (*SETS, RCV1, "multilabel/delicious.npz"),
                "Methods with an argmax of whole sets have the first 200 examples of Delicious; GDMM all of "
                "them, too.",
                "enron, RCV1 and Delicious",
            ),
            (
                "iterations",
                "Figure 2 (passes and time) and Theorems 1 and 2 (the rate)",
                ("yeast",),
                (*TAGS, *PINYIN, *SETS),
                "Other data sets; the algorithms as printed are beside the exact steps of single factors.",
                "treebank and pinyin",
            ),
        )
    ),
)
