"""Sphinx's settings of the site. It loads nothing from the network: no fonts, no scripts, no MathJax."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "course" / "lib")]  # a checkout is enough

project = "rankup"
html_title = "rankup"
author = "the authors of rankup"
copyright = author  # noqa: A001 - Sphinx's name

extensions = ["myst_nb"]
html_theme = "sphinx_book_theme"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "navbar_persistent": [],  # the search is in the sidebar
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "search_bar_text": "Search the course",
}
html_context = {"default_mode": "auto"}  # light or dark as the reader's system, until the switch is pressed
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"

nb_execution_mode = "off"  # `executed` has run them
nb_render_markdown_format = "myst"  # CommonMark alone has no tables
nb_ipywidgets_js: dict[str, Any] = {}  # these would come from the network: ours move by `widgets` instead
nb_mime_priority_overrides = [("*", "application/vnd.jupyter.widget-view+json", None)]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_heading_slug_func = "slugs.as_jupyterlab"  # chapters link to headings as JupyterLab names them


def _mathml(page: Any, node: nodes.math | nodes.math_block) -> None:
    """A formula as MathML, which browsers set by themselves."""
    block = isinstance(node, nodes.math_block)
    page.body.append(str(latex2mathml.tex2mathml(node.astext(), as_block=block)))
    raise nodes.SkipNode


def _widgets(app: Any) -> None:
    """All widgets' modules as one script: pages that are opened as files may load no modules."""
    from courselib import widget

    parts = [(HERE / "widgets.js").read_text("utf-8"), widget.shared()]
    for path in sorted(widget.FOLDER.glob("*.js")):
        body, _, exported = path.read_text("utf-8").rpartition("export default ")
        parts.append(f"(() => {{\n{body}window.rankupWidgets[{path.stem!r}] = {exported.strip()}\n}})();\n")
    script = Path(app.outdir, "_static", "all-widgets.js")
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text("\n".join(parts), "utf-8")


def _page(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    if "rankup-widget" in context.get("body", ""):
        app.add_js_file("all-widgets.js")


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (_mathml, None), (_mathml, None))
    app.connect("builder-inited", _widgets)
    app.connect("html-page-context", _page)
