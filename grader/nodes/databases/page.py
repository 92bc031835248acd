"""A page of what a database was seen to do: the verdict, each anomaly with its transactions, and every crossing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib import resources

from grader.nodes.databases import report
from grader.nodes.databases.run import Result
from grader.nodes.histories.page import clean
from grader.nodes.histories.transactions import picture
from grader.trace import dark

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
CSS = """
.words th, .words td { text-align: left !important; vertical-align: top; } .words { margin: 8px 0; }
"""


def html(result: Result) -> str:
    """A self-contained page: it loads and runs nothing, and every text in it is escaped. It follows light and dark."""
    title, tone = report.title(result), "good" if result.valid else "bad"
    css = resources.files("grader.nodes.histories").joinpath("page.css").read_text("utf-8") + dark.rules()
    body = "\n".join(
        (
            f'<h1>{escape(title)}: <span class="{tone}">{escape(report.verdict(result))}</span></h1>',
            f"<p>{escape(report.rest(result))}</p>",
            *(f'<p class="facts">{escape(name)}: {escape(words)}</p>' for name, words in report.rows(result)),
            *_witnesses(result),
            *_crossings(result),
        )
    )
    return clean(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<title>{escape(title)}</title>\n'
        f"<style>\n{css}{CSS}</style></head>\n<body><main>\n{body}\n</main></body></html>\n"
    )


def _witnesses(result: Result) -> Iterator[str]:
    by_index = {one.index: one for one in result.transactions}
    for anomaly, title in report.titled(result):
        yield f'<figure class="follows">{picture.svg(anomaly, by_index, title)}</figure>'


def _crossings(result: Result) -> Iterator[str]:
    yield "<h2>What the crossings showed</h2>"
    yield (
        '<p class="facts">Each crossing has keys of its own. Its statements are sent one at a time, in the order in '
        "which a database without the right isolation must show the anomaly.</p>"
    )
    forbidden = {one.kind for one in result.forbidden}
    rows = [(each.crossing.name, each.crossing.about, report.outcome(each)) for each in result.crossed]
    bad = [bool(forbidden & set(each.kinds)) for each in result.crossed]
    yield from _table(report.HEADS, rows, bad)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], bad: Sequence[bool] | None = None) -> Iterator[str]:
    row = "".join(f"<th>{escape(head)}</th>" for head in heads)
    yield f'<div class="table words"><table><thead><tr>{row}</tr></thead><tbody>'
    for number, cells in enumerate(rows):
        marked = ' class="bad"' if bad is not None and bad[number] else ""
        yield f"<tr{marked}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
    yield "</tbody></table></div>"
