"""All clauses of the pinyin task: time, memory and accuracy of ``solver="auto"`` with the exact argmax."""

from __future__ import annotations

import resource
import time
import warnings
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from benchmarks.datasets import Dataset
from benchmarks.papers.gdmm.tasks import load
from maxmargin import StructuralSVM, models
from maxmargin.metrics import tag_accuracy_score


def train_on_all(small: bool, C: float = 0.1, passes: float = 4) -> list[dict[str, Any]]:
    """Measure one fit of a few passes, beside predicting the most frequent label of a syllable."""
    data = load("pinyin", small=small)
    # the fit is limited to a few passes on purpose
    warnings.simplefilter("ignore", ConvergenceWarning)
    began = time.process_time()
    svm = StructuralSVM(models.Chain(), C=C, tol=1e-2, max_passes=passes, random_state=0)
    svm.fit(data.X_train, data.Y_train)
    fitted = time.process_time()
    accuracy = tag_accuracy_score(data.Y_test, svm.predict(data.X_test))
    certificate = svm.certificate_
    row = {
        "sequences": data.size,
        "positions": sum(map(len, data.Y_train)),
        "labels": len(svm.classes_),
        "solver": svm.solver_,
        "fit_cpu_s": fitted - began,
        "passes": certificate.passes,
        "primal": certificate.primal,
        "dual": certificate.dual,
        "gap": certificate.gap,
        "accuracy": accuracy,
        "most_frequent": tag_accuracy_score(data.Y_test, most_frequent(data)),
        "predict_cpu_s": time.process_time() - fitted,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(row, flush=True)
    return [row]


def most_frequent(data: Dataset) -> list[list[Any]]:
    """Predict the most frequent training label of each test position's feature.

    A position without a feature gets the most frequent label of all.
    """
    counts: dict[int, Counter] = defaultdict(Counter)
    for x, y in zip(data.X_train, data.Y_train, strict=True):
        for code, label in zip(codes(x), y, strict=True):
            counts[code][label] += 1
            counts[-1][label] += 1
    best = {code: counter.most_common(1)[0][0] for code, counter in counts.items()}
    return [[best.get(code, best[-1]) for code in codes(x)] for x in data.X_test]


def codes(x: Any) -> list[int]:
    """Return the one feature of each row, or -1 if the row is empty."""
    starts = x.indptr.tolist()
    return [int(x.indices[a]) if b > a else -1 for a, b in pairwise(starts)]
