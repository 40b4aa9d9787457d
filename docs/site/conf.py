"""Settings of Sphinx, for the website of the documentation."""

project = "Rewindow"
author = copyright = "The Rewindow maintainers"  # noqa: A001 -- Sphinx reads this name
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Rewindow"
html_show_sphinx = False
nitpick_ignore = [("myst", "agent-capabilities")]  # a link within a quotation of a specification
suppress_warnings = ["misc.highlighting_failure"]  # a lexer that does not know a dialect
