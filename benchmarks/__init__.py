"""Benchmarks: races to a duality gap, tables of papers, and timings of single passes.

All measurements use one thread, so numerical libraries are limited to one before they load.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
