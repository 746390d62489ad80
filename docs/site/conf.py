"""What Sphinx is told; ``python -m docs.site`` runs it on sources that it writes."""

from upshot.version import __version__

project = "upshot"
release = version = __version__
extensions = ["myst_parser"]
# GitHub gives every heading an anchor, and the pages link to them.
myst_heading_anchors = 6
myst_heading_slug_func = "docs.site.reference.slug_of"
html_theme = "furo"
html_title = f"upshot {__version__}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
# With it, the search page loads every page that it found.
html_show_search_summary = False
