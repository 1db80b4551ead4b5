"""Parse sentences with a grammar that is read off a treebank.

The treebank is made up: a small grammar of English with ambiguous words ("saw"), in which
prepositional phrases attach to nouns or to verbs. The example writes it to a file in Penn brackets
and reads it again, like a real treebank.

Run: python examples/parsing.py [--small]
"""

import sys
from pathlib import Path

from maxmargin import StructuralSVM, models
from maxmargin.data.spans import bracket_scores
from maxmargin.data.synthetic import random_treebank
from maxmargin.data.trees import clean, read_trees, write_trees

n = 60 if "--small" in sys.argv else 400
bank = Path("treebank.mrg")
with bank.open("w", encoding="utf-8") as file:
    write_trees(random_treebank(n, random_state=0)[1], file)

with bank.open(encoding="utf-8") as file:
    Y_train = [clean(tree) for tree in read_trees(file)]
X_train = [tree.leaves() for tree in Y_train]
X_test, Y_test = random_treebank(100, random_state=1)
print(f"{len(Y_train)} trees in {bank}, for instance\n  {Y_train[0]}")

parser = StructuralSVM(models.Grammar(loss="spans", horizontal=1), C=0.1, tol=0.05, random_state=0)
parser.fit(X_train, Y_train)
print(parser.certificate_)

scores = bracket_scores(Y_test, parser.predict(X_test), root=False)
print(f"new sentences: precision {scores.precision:.3f}, recall {scores.recall:.3f}, ", end="")
print(f"F1 {scores.f1:.3f}, whole trees {scores.exact:.2f}")

# The sentence has two readings: the telescope belongs to the seeing, or to the dog.
sentence = ["she", "saw", "the", "dog", "with", "a", "telescope"]
for tree, score in parser.predict_k_best([sentence], k=2)[0]:
    print(f"score {score:.2f}  {tree}")

# The binary rules with the largest and the smallest weight.
weights = parser.model_.unpack(parser.coef_)["binary"]
ranked = sorted(zip(weights, parser.model_.rules_["binary"], strict=True))
for weight, (parent, left, right) in (ranked[-1], ranked[0]):
    print(f"{weight:+.2f}  {parent} -> {left} {right}")
