"""Estimators and models in a notebook: the models inside, parameters, links to the site."""

import re
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

import maxmargin as mm
from maxmargin import models

API = (Path(__file__).parents[2] / "docs/api.md").read_text()
SITE = "https://site.local/0.2"
ESTIMATORS = [
    mm.StructuralSVM(models.Chain()),
    mm.StructuralSVMCV(models.Chain()),
    mm.CRF(models.Grammar()),
    mm.LatentSVM(models.Latent(models.Multiclass(), 2)),
    mm.MulticlassSVC(),
    mm.MulticlassSVCCV(),
    mm.MulticlassLogistic(),
    mm.BinarySVC(),
    mm.RegressionSVR(),
    mm.GeneralizedSVM(),
]
MODELS = [
    models.Binary(),
    models.Chain(),
    models.FactorGraph(),
    models.Kernel(models.Multiclass()),
    models.Latent(models.Chain(), 2),
    models.MultiLabel(),
    models.Multiclass(),
    models.Ranking(),
    models.Tree(),
]


def named(page):
    """Return the names of the blocks of a diagram, from the outside to the inside."""
    return re.findall(r"sk-toggleable__label.*?<div><div>(.*?)</div>", page, re.DOTALL)


@pytest.mark.parametrize("shown", [*ESTIMATORS, *MODELS], ids=lambda shown: type(shown).__name__)
def test_diagrams_link_to_pages_of_the_site(shown, monkeypatch):
    assert SITE not in estimator_html_repr(shown)
    monkeypatch.setenv("MAXMARGIN_DOCS", f"{SITE}/")
    name, page = type(shown).__name__, estimator_html_repr(shown)
    module = "maxmargin" if shown in ESTIMATORS else "maxmargin.models"
    assert f'href="{SITE}/api/{module}.{name}.html"' in page
    listed = re.search(rf"currentmodule:: {module}\n.*?\n   {name}\n", API, re.DOTALL)
    assert listed, "the page is not among those of the API"


def test_models_are_shown_inside():
    assert named(estimator_html_repr(mm.StructuralSVM(models.Chain()))) == [
        "StructuralSVM",
        "model: Chain",
        "Chain",
    ]
    page = estimator_html_repr(mm.LatentSVM(models.Latent(models.Multiclass(), 2)))
    assert named(page)[0] == "LatentSVM" and "Multiclass" in named(page)
    pipeline = make_pipeline(StandardScaler(), mm.StructuralSVM(models.Multiclass()))
    assert {"StandardScaler", "Multiclass"} <= set(named(estimator_html_repr(pipeline)))


def test_a_fitted_estimator_says_so():
    svm = mm.StructuralSVM(models.Chain())
    assert "<span>Not fitted</span>" in svm._repr_html_()
    svm.fit([[[1.0, 2.0]], [[2.0, 1.0]]], [["a"], ["b"]])
    assert "<span>Fitted</span>" in svm._repr_html_()
    assert svm._repr_mimebundle_()["text/plain"] == "StructuralSVM(model=Chain())"


def test_own_classes_have_no_page(monkeypatch):
    class Mine(mm.MulticlassSVC):
        """A user's subclass of an estimator of the library."""

    monkeypatch.setenv("MAXMARGIN_DOCS", SITE)
    assert Mine()._get_doc_link() == ""
    assert f"{SITE}/api" not in estimator_html_repr(Mine())


def test_an_own_model_is_shown():
    class Own(BaseEstimator):
        """A model written in Python, with parameters."""

        def __init__(self, size=3):
            self.size = size

    assert "model: Own" in named(estimator_html_repr(mm.StructuralSVM(Own())))
