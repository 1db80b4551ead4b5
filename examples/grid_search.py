"""Which C? Cross-validation over chains with scikit-learn's own tools.

Run: python examples/grid_search.py [--small]
"""

import sys

from sklearn.model_selection import GridSearchCV

from maxmargin import StructuralSVM, models
from maxmargin.data.synthetic import words_of_letters

small = "--small" in sys.argv
X_train, Y_train = words_of_letters(40 if small else 200, random_state=0)
X_test, Y_test = words_of_letters(100, random_state=1)

# classes= names every letter, so that a fold that happens to miss one still trains and scores.
chain = models.Chain(loss="mean-hamming", bias=1.0, classes=list("abcdefghijklmnopqrstuvwxyz"))
svm = StructuralSVM(chain, tol=1e-2, random_state=0)
grid = {"C": [0.01, 0.1] if small else [0.001, 0.01, 0.1, 1.0]}

search = GridSearchCV(svm, grid, cv=3).fit(X_train, Y_train)
for C, score in zip(grid["C"], search.cv_results_["mean_test_score"], strict=True):
    print(f"C = {C:<5g}  letters right in cross-validation {score:.3f}")
print(f"best C {search.best_params_['C']:g}: letters right on new words", end=" ")
print(f"{search.score(X_test, Y_test):.3f}")
