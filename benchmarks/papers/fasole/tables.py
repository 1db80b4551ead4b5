"""The tables of Franc, with a part for each data set."""

from __future__ import annotations

from benchmarks.papers import files
from benchmarks.papers.fasole import __main__ as command
from benchmarks.papers.fasole import figure1
from benchmarks.papers.fasole.claims import claims
from benchmarks.papers.table import Table

PAPER = "Franc: FASOLE, Fast Algorithm for Structured Output Learning (2014)"
NEEDS = {"usps": files.USPS, "ocr": (files.OCR,), "faces68": (files.FACES,)}
STANDS = (
    " faces68 (500 faces, 8 landmarks, local binary patterns) takes the place of the paper's "
    "LANDMARK. Its images are different, so compare only the order of the methods."
)
QUICK = {"usps": "8", "ocr": "20"}  # seconds of a fit in a quick run
LONG = {"faces68": "20"}  # seconds of a fit in a full run, if not 600
TABLES = [
    *(
        Table(
            f"fasole/table2/{data}",
            f"{PAPER}, Table 2",
            command.main,
            ("--data", data, "--seconds", LONG.get(data, "600")),
            ("--data", data, "--seconds", QUICK[data]) if data in QUICK else None,
            NEEDS[data],
            "Our times are CPU seconds, the paper's are wall-clock times of Matlab. The sentences "
            "below the table compare its rows with the paper's claims."
            + STANDS
            * (data == "faces68"),
            f"the part of a fit after {QUICK[data]} s" if data in QUICK else "all of it",
            (
                *(
                    "data",
                    "inputs",
                    "method",
                    "lambda",
                    "passes",
                    "paper_passes",
                    "cpu",
                    "paper_seconds",
                ),
                *("gap", "converged", "test_error"),
            ),
            claims,
            f"a fit ends after {LONG[data]} s of CPU" if data in LONG else "",
        )
        for data in NEEDS
    ),
    *(
        Table(
            f"fasole/figure1/{data}",
            f"{PAPER}, Figure 1",
            command.main,
            ("--part", "figure1", "--data", data),
            ("--part", "figure1", "--data", data, "--seconds", "3"),
            NEEDS[data],
            "The paper has curves and no numbers." + STANDS * (data == "faces68"),
            "the part of a fit after 3 s",
            says=figure1.says,
            full_ends=f"a method ends after {figure1.LONGEST:g} s of CPU",
        )
        for data in NEEDS
    ),
]
