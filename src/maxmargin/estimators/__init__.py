"""Estimators in the style of scikit-learn: one for structured models, and front ends for flat outputs."""

from maxmargin.estimators.crf import CRF, MulticlassLogistic
from maxmargin.estimators.flat import BinarySVC, MulticlassSVC
from maxmargin.estimators.generalized import GeneralizedSVM, RegressionSVR
from maxmargin.estimators.latent import LatentSVM
from maxmargin.estimators.path import RegularizationPath, regularization_path
from maxmargin.estimators.search import MulticlassSVCCV, StructuralSVMCV
from maxmargin.estimators.structural import StructuralSVM

__all__ = [
    "CRF",
    "BinarySVC",
    "GeneralizedSVM",
    "LatentSVM",
    "MulticlassLogistic",
    "MulticlassSVC",
    "MulticlassSVCCV",
    "RegressionSVR",
    "RegularizationPath",
    "StructuralSVM",
    "StructuralSVMCV",
    "regularization_path",
]
