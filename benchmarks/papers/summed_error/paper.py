"""What the paper's tables say (Balamurugan, Shevade and Babu)."""

from __future__ import annotations

# Table III: training seconds, OCR0 .. OCR9, by method and C
SECONDS = {
    ("cutting planes", 0.01): "115.36 99.37 119.97 132.31 142.08 113.14 156 175.91 133.95 113.33",
    ("sdcd", 0.01): "24.89 23.41 20.84 25.44 29.35 25.62 34.66 23.07 30.87 24.95",
    (
        "cutting planes",
        0.1,
    ): "595.13 628.05 474.26 432.04 1288.68 467.75 418.11 378.49 511.23 1193.12",
    ("sdcd", 0.1): "37.37 38.73 36.73 49.69 38.71 33.47 54.11 68.39 49.2 37.63",
    (
        "cutting planes",
        1.0,
    ): "4181.79 9013.09 4928.94 9628 8971.55 7657.24 7134.54 4904.36 4118.72 3822.71",
    ("sdcd", 1.0): "106.39 179.53 123.81 116.5 178.28 148.41 184.26 193.44 146.02 116.76",
}

# Table IV: test accuracy in percent
ACCURACY = {
    ("cutting planes", 0.01): "75.46 76.05 75.97 76.8 76.43 75.87 76.44 75.66 76.44 75.78",
    ("sdcd", 0.01): "74.43 75.4 75.3 76.17 75.47 75.24 75.99 74.8 75.6 75.02",
    ("cutting planes", 0.1): "73.46 74.14 74.1 75.19 75.28 73.52 74.2 73.78 75.5 73.84",
    ("sdcd", 0.1): "73.86 74.54 74.66 75.56 75.44 73.88 74.43 74.02 75.62 74.57",
    ("cutting planes", 1.0): "71.15 71.56 72.25 73 72.74 71.24 71.63 71.18 73.38 71.74",
    ("sdcd", 1.0): "71.3 72.05 72.44 73.15 72.93 71.39 71.68 71.68 73.31 71.85",
}


def entry(
    table: dict[tuple[str, float], str], method: str, weight: float, fold: int
) -> float | None:
    """A number of a table; None for a method that the paper does not have."""
    row = table.get((method, weight))
    return None if row is None else float(row.split()[fold])
