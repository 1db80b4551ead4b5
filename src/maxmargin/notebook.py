"""How estimators and models look in a notebook: scikit-learn's diagram, with the models inside, and links.

``MAXMARGIN_DOCS`` in the environment is the address of the site that the links lead to, such as
``file:///home/me/maxmargin/build/site/html``; without it there are no links.
"""

from __future__ import annotations

import os
from typing import Any

from maxmargin._sklearn import BaseEstimator

ADDRESS = "MAXMARGIN_DOCS"
# Folders whose names are public ones of their own; the rest are the package's.
PUBLIC_FOLDERS = ("models",)


class Shown(BaseEstimator):
    """What has parameters, and a place in diagrams."""

    _doc_link_module = "maxmargin"

    def _get_doc_link(self) -> str:
        """The page of its class on the site; empty for a class that is not of this library."""
        address, path = os.environ.get(ADDRESS, ""), type(self).__module__.split(".")
        if not address or path[0] != self._doc_link_module:
            return ""
        home = ".".join([path[0], *(name for name in path[1:2] if name in PUBLIC_FOLDERS)])
        return f"{address.rstrip('/')}/api/{home}.{type(self).__name__}.html"

    def _sk_visual_block_(self) -> Any:
        """A block, with the models that it is made of inside."""
        try:
            from sklearn.utils._repr_html.estimator import _VisualBlock
        except ImportError:  # before 1.7
            from sklearn.utils._estimator_html_repr import _VisualBlock

        values = self.get_params(deep=False).items()
        inner = [(name, value) for name, value in values if isinstance(value, BaseEstimator)]
        if not inner:
            name = type(self).__name__
            return _VisualBlock("single", self, names=name, name_details=str(self))
        return _VisualBlock(
            "parallel",
            [value for _, value in inner],
            names=[f"{name}: {type(value).__name__}" for name, value in inner],
            name_details=[str(value) for _, value in inner],
        )
