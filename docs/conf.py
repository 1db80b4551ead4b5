"""Settings of Sphinx for the site; `make docs` builds it in build/site/html.

Sphinx reads a copy of these pages that tools/prepare_site.py makes, in which links to files of the repository
lead to pages of the site.
"""

import os
import re
from pathlib import Path

from sphinx_gallery.sorting import FileNameSortKey

import maxmargin

project = "maxmargin"
author = "the maxmargin developers"
copyright = author
version = release = maxmargin.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["colon_fence", "attrs_block"]
myst_heading_anchors = 3
highlight_language = "text"  # formulas; code says what it is
suppress_warnings = ["config.cache"]
exclude_patterns = ["**/GALLERY_HEADER.rst", "gallery_source/**", "**sg_execution_times*"]

html_theme = "pydata_sphinx_theme"
html_title = "maxmargin"
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "first_hour": []}
html_theme_options = {
    "logo": {"text": f"maxmargin {version}"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
}

autosummary_generate = True
autodoc_typehints = "none"
autodoc_default_options = {"inherited-members": False}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_validation_checks: set[str] = set()

sphinx_gallery_conf = {
    "examples_dirs": "gallery_source",
    "gallery_dirs": "gallery",
    "filename_pattern": r"(?<!cluster)\.py$",  # which starts processes of its own
    "ignore_pattern": r"^$",
    "reset_argv": lambda *_: ["--small"],
    "within_subsection_order": FileNameSortKey,
    "copyfile_regex": r".*\.rst",
    "min_reported_time": 1e9,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "default_thumb_file": str(Path(__file__).parent / "_static" / "example.png"),
    "plot_gallery": os.environ.get("EXAMPLES", "1") == "1",
}


def escape_formulas(app, what, name, obj, options, lines):
    """|w|^2 and coef_ are not markup: docstrings are for readers of the code first."""
    for k, line in enumerate(lines):
        parts = line.split("``")
        for j in range(0, len(parts), 2):
            text = re.sub(r"(?<!\\)\|", r"\\|", parts[j])
            parts[j] = re.sub(r"(?<![`*\\])\b(\w*[A-Za-z0-9])_(?=[\s,.;:)'*]|$)", r"\1\\_", text)
        lines[k] = "``".join(parts)


def skip_requests(app, what, name, obj, skip, options):
    """scikit-learn writes set_fit_request and its kin, for its own pages."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app):
    app.connect("autodoc-skip-member", skip_requests)
    app.connect("autodoc-process-docstring", escape_formulas, priority=900)
