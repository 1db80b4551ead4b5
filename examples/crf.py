"""Hinge, softmax margin and log loss on one data set: time, error, and calibration.

The data are words of noisy letters. All three machines have the same features, and their objectives
differ only in the loss of an example. The scores of the hinge become probabilities by a temperature
that is fitted on held-out words. The log loss gives probabilities without that step; for
comparison, all three machines are calibrated.

Run: python examples/crf.py [--small]
"""

import argparse
import time

import numpy as np

import maxmargin as mm
from maxmargin import models
from maxmargin.data.synthetic import words_of_letters

C = 0.1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="a few words only")
    small = parser.parse_args().small
    sizes = (60, 40, 40) if small else (2000, 500, 1000)
    parts = [words_of_letters(n, noise=0.45, random_state=i) for i, n in enumerate(sizes)]
    (X, Y), held_out, (X_test, Y_test) = parts
    model = models.Chain(bias=1.0)
    machines = {
        "hinge": mm.StructuralSVM(model, C=C, random_state=0),
        "softmax margin": mm.CRF(model, C=C, formulation="softmax-margin", random_state=0),
        "log loss": mm.CRF(model, C=C, random_state=0),
    }
    print(f"{'':24} CPU s   letters wrong   calibration error   temperature")
    for name, machine in machines.items():
        began = time.process_time()
        machine.fit(X, Y)
        seconds = time.process_time() - began
        report(name, machine, seconds, X_test, Y_test)
        machine.calibrate(*held_out)
        report(f"{name}, calibrated", machine, 0.0, X_test, Y_test)

    crf = machines["log loss"]
    print(f"\n{crf.certificate_}")
    likely = crf.log_likelihood(X_test, Y_test)
    print(f"\nthe test words have {-likely.mean():.2f} nats each")
    doubtful = int(np.argmin(likely))
    read = [
        "".join(map(str, word)) for word in crf.sample(X_test[doubtful : doubtful + 1], 5, 0)[0]
    ]
    print(
        f"five readings of the most doubtful word, {''.join(map(str, Y_test[doubtful]))!r}: {read}"
    )


def report(name, machine, seconds, X, Y):
    """Print one line: time, error, expected calibration error, temperature."""
    table = machine.reliability(X, Y)
    off = np.abs(np.subtract(table["probability"], table["right"])) @ table["nodes"]
    off /= np.sum(table["nodes"])
    time_spent = f"{seconds:6.2f}" if seconds else " " * 6
    temperature = getattr(machine, "temperature_", 1.0)
    wrong = 100 * (1 - machine.score(X, Y))
    print(f"{name:24}{time_spent}   {wrong:11.1f} %   {100 * off:15.1f} %   {temperature:11.2f}")


if __name__ == "__main__":
    main()
