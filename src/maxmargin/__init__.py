"""Structural support vector machines, each solution with a certificate.

>>> import maxmargin as mm
>>> from maxmargin import models
>>> svm = mm.StructuralSVM(models.Chain(), C=0.1).fit(X, Y)      # doctest: +SKIP
>>> print(svm.certificate_)                                      # doctest: +SKIP
"""

from maxmargin import callbacks, data, losses, metrics, models, solvers
from maxmargin.certify import certify, objective
from maxmargin.estimators import (
    BinarySVC,
    GeneralizedSVM,
    LatentSVM,
    MulticlassSVC,
    RegressionSVR,
    StructuralSVM,
)
from maxmargin.io.model_file import ModelFileError
from maxmargin.models.check_model import check_model
from maxmargin.models.checks import OracleError
from maxmargin.persistence import load
from maxmargin.problem import Certificate, Problem
from maxmargin.train import train

__version__ = "0.1.0"

__all__ = [
    "BinarySVC",
    "Certificate",
    "GeneralizedSVM",
    "LatentSVM",
    "ModelFileError",
    "MulticlassSVC",
    "OracleError",
    "Problem",
    "RegressionSVR",
    "StructuralSVM",
    "callbacks",
    "certify",
    "check_model",
    "data",
    "load",
    "losses",
    "metrics",
    "models",
    "objective",
    "solvers",
    "train",
]
