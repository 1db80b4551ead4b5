"""A model of your own, in plain Python: find the one interval of a signal that stands out.

x is a (T, d) array and y a pair (start, end) of positions. The loss is one minus the overlap of two
intervals (intersection over union). You can write any model that has an argmax in this way.

Run: python examples/own_model.py [--small]
"""

import sys

import numpy as np

import maxmargin as mm


class IntervalModel:
    """Predict where an interval lies, from its length and the sum of the features inside it."""

    def initialize(self, X, Y):
        self.n_features = X[0].shape[1]
        self.size_joint_feature = self.n_features + 1

    def joint_feature(self, x, y):
        """Return the sum of the features inside the interval, and its length."""
        start, end = y
        return np.append(x[start:end].sum(axis=0), end - start)

    def loss(self, y, y_hat):
        shared = max(0, min(y[1], y_hat[1]) - max(y[0], y_hat[0]))
        return 1.0 - shared / (y[1] - y[0] + y_hat[1] - y_hat[0] - shared)

    def inference(self, x, w):
        return self._best(self._scores(x, w), len(x))

    def loss_augmented_inference(self, x, y, w):
        """Return the argmax over y_hat of loss(y, y_hat) + <w, joint_feature(x, y_hat)>.

        It tries all intervals.
        """
        start, end = self._intervals(len(x))
        shared = np.maximum(0, np.minimum(y[1], end) - np.maximum(y[0], start))
        losses = 1.0 - shared / (y[1] - y[0] + end - start - shared)
        return self._best(self._scores(x, w) + losses, len(x))

    def _intervals(self, length):
        start, end = np.triu_indices(length)
        return start, end + 1

    def _scores(self, x, w):
        start, end = self._intervals(len(x))
        summed = np.concatenate([[0.0], np.cumsum(x @ w[:-1] + w[-1])])
        return summed[end] - summed[start]

    def _best(self, scores, length):
        start, end = self._intervals(length)
        best = int(scores.argmax())
        return int(start[best]), int(end[best])


def signals(n, seed):
    """Draw signals of noise, with a faint common direction added inside one interval."""
    rng = np.random.default_rng(seed)
    direction = np.array([1.0, -0.6, 0.4, 0.0, 0.0])
    X, Y = [], []
    for _ in range(n):
        length = int(rng.integers(15, 30))
        start = int(rng.integers(0, length - 5))
        end = int(rng.integers(start + 3, min(start + 12, length) + 1))
        x = rng.normal(size=(length, len(direction)))
        x[start:end] += direction
        X.append(x)
        Y.append((start, end))
    return X, Y


X_train, Y_train = signals(20 if "--small" in sys.argv else 150, seed=0)
X_test, Y_test = signals(100, seed=1)

# Check the model before training. Here check_model finds no mistake.
mm.check_model(IntervalModel(), X_train[:10], Y_train[:10])

svm = mm.StructuralSVM(IntervalModel(), C=1.0, tol=1e-2, random_state=0).fit(X_train, Y_train)
print(f"solver {svm.solver_}, gap {svm.certificate_.gap:.4f}", end=", ")
print(f"{svm.certificate_.oracle_calls} oracle calls")
print(f"mean overlap on new signals  {1 - svm.loss(X_test, Y_test):.3f}")
for x, y in zip(X_test[:3], Y_test[:3], strict=True):
    print(f"true interval {y}, found {svm.predict([x])[0]}")
print("weights", np.round(svm.coef_, 2))


# A model with a mistake: its loss-augmented argmax forgets the loss.
class Forgetful(IntervalModel):
    def loss_augmented_inference(self, x, y, w):
        return self.inference(x, w)


try:
    mm.check_model(Forgetful(), X_train[:10], Y_train[:10])
except Exception as problem:
    print("check_model on a broken copy:", problem)
else:
    raise SystemExit("check_model did not notice the forgotten loss")
