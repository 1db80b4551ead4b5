"""Structural support vector machines; every solution has a certificate.

>>> import maxmargin as mm
>>> from maxmargin import models
>>> svm = mm.StructuralSVM(models.Chain(), C=0.1).fit(X, Y)      # doctest: +SKIP
>>> print(svm.certificate_)                                      # doctest: +SKIP
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxmargin import callbacks, cluster, data, losses, metrics, models, report, solvers
    from maxmargin.certify import certify, objective
    from maxmargin.estimators import (
        CRF,
        BinarySVC,
        GeneralizedSVM,
        LatentSVM,
        MulticlassLogistic,
        MulticlassSVC,
        MulticlassSVCCV,
        RegressionSVR,
        StructuralSVM,
        StructuralSVMCV,
        regularization_path,
    )
    from maxmargin.io.model_file import ModelFileError
    from maxmargin.models.check_model import check_model
    from maxmargin.models.checks import OracleError
    from maxmargin.persistence import load
    from maxmargin.problem import Certificate, Problem
    from maxmargin.train import train

__version__ = "0.2.0"

__all__ = [
    "CRF",
    "BinarySVC",
    "Certificate",
    "GeneralizedSVM",
    "LatentSVM",
    "ModelFileError",
    "MulticlassLogistic",
    "MulticlassSVC",
    "MulticlassSVCCV",
    "OracleError",
    "Problem",
    "RegressionSVR",
    "StructuralSVM",
    "StructuralSVMCV",
    "callbacks",
    "certify",
    "check_model",
    "cluster",
    "data",
    "load",
    "losses",
    "metrics",
    "models",
    "objective",
    "regularization_path",
    "report",
    "solvers",
    "train",
]

# The modules of public names that are not modules themselves. A name is imported when it is first
# used, so that importing the package is fast.
HOMES = {
    "BinarySVC": "estimators",
    "CRF": "estimators",
    "Certificate": "problem",
    "GeneralizedSVM": "estimators",
    "LatentSVM": "estimators",
    "ModelFileError": "io.model_file",
    "MulticlassLogistic": "estimators",
    "MulticlassSVC": "estimators",
    "MulticlassSVCCV": "estimators",
    "OracleError": "models.checks",
    "Problem": "problem",
    "RegressionSVR": "estimators",
    "StructuralSVM": "estimators",
    "StructuralSVMCV": "estimators",
    "certify": "certify",
    "check_model": "models.check_model",
    "load": "persistence",
    "objective": "certify",
    "regularization_path": "estimators",
    "train": "train",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in HOMES:
        return import_module(f"{__name__}.{name}")
    found = getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class Package(ModuleType):
    """A package that exports functions rather than the modules of the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = Package
