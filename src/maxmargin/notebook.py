"""Display of estimators in a notebook: scikit-learn's diagram, with inner models and links.

The links lead to the site whose address is in the environment variable ``MAXMARGIN_DOCS``, such as
``file:///home/me/maxmargin/build/site/html``. If it is not set, there are no links.
"""

from __future__ import annotations

import os
from typing import Any

from maxmargin._sklearn import BaseEstimator

ADDRESS = "MAXMARGIN_DOCS"
# Folders that are public names; classes elsewhere are documented as names of the package.
PUBLIC_FOLDERS = ("models",)


class Shown(BaseEstimator):
    """Base of classes with parameters and a diagram."""

    _doc_link_module = "maxmargin"

    def _get_doc_link(self) -> str:
        """Return the address of the page of the class, or "" if the class is not from this library."""
        address, path = os.environ.get(ADDRESS, ""), type(self).__module__.split(".")
        if not address or path[0] != self._doc_link_module:
            return ""
        home = ".".join([path[0], *(name for name in path[1:2] if name in PUBLIC_FOLDERS)])
        return f"{address.rstrip('/')}/api/{home}.{type(self).__name__}.html"

    def _sk_visual_block_(self) -> Any:
        """Return a block that contains the blocks of inner models."""
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
