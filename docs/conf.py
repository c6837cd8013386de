"""The documentation site: `make docs` builds it, and a broken link is an error."""

from pathlib import Path

project = "Tailrace"
extensions = ["myst_parser"]
root_doc = "index"
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Tailrace"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_search_scorer = str(Path(__file__).parent / "site" / "scorer.js")
myst_heading_anchors = 4
nitpicky = True
# Example code in pages need not be whole.
suppress_warnings = ["misc.highlighting_failure", "toc.not_included"]
