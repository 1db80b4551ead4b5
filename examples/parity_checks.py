"""Learn an error-correcting code: factors over four nodes find out that the number of ones is even.

Seven bits of a Hamming code are sent over a noisy line. In every word, each of three checks has an
even number of ones among its four bits. Weights of single bits or of pairs cannot express that,
because any three bits of a check are independent. A factor over the four bits learns it; the three
checks share its sixteen weights.

Run: python examples/parity_checks.py [--small]
"""

import sys
from itertools import combinations

import numpy as np

from maxmargin import StructuralSVM, models

CHECKS = np.array([[0, 2, 4, 6], [1, 2, 5, 6], [3, 4, 5, 6]])
words = [w for w in np.ndindex(*[2] * 7) if not (np.array(w)[CHECKS].sum(axis=1) % 2).any()]


def sent(n, seed):
    """Draw n words of the code, and the received bits, each a number near -1 or 1."""
    generator = np.random.default_rng(seed)
    Y = [list(words[k]) for k in generator.integers(len(words), size=n)]
    return [(2 * np.array(y) - 1 + 0.9 * generator.normal(size=7))[:, None] for y in Y], Y


n = 60 if "--small" in sys.argv else 400
received, Y_train = sent(n, 0)
received_new, Y_test = sent(500, 1)
pairs = [pair for check in CHECKS.tolist() for pair in combinations(check, 2)]
forms = {
    "bits alone": lambda x: (x, []),
    "pairs of bits": lambda x: (x, pairs),
    "checks of four bits": lambda x: (x, [], None, None, CHECKS),
}
for name, form in forms.items():
    svm = StructuralSVM(models.FactorGraph(bias=1.0), C=0.1, tol=0.02, random_state=0)
    svm.fit([form(x) for x in received], Y_train)
    print(
        f"{name + ':':20s} {svm.score([form(x) for x in received_new], Y_test):.3f} of the bits right"
    )

weights = svm.model_.unpack(svm.coef_)["cliques[clique]"]
even = np.indices(weights.shape).sum(axis=0) % 2 == 0
print(
    f"weights of even checks {weights[even].mean():+.2f}, of odd ones {weights[~even].mean():+.2f}"
)
print(svm.certificate_)
