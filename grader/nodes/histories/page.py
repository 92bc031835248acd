"""A page of its own for one checked history: the verdict, the picture, and the operations around the violation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib import resources

from grader.nodes.histories import picture, view, words
from grader.nodes.histories.checker import Checked
from grader.nodes.histories.history import NEVER, Operation, called
from grader.nodes.histories.words import Clock
from grader.trace import dark
from grader.trace.story import Fault

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def verdict(checked: Checked) -> str:
    """ "not linearizable", with "unknown whether it is" where the budget was spent."""
    adjective = "linearizable" if checked.consistency == "linearizable" else "sequentially consistent"
    if checked.valid == "unknown":
        return f"unknown whether it is {adjective}"
    return adjective if checked.valid else f"not {adjective}"


def html(
    checked: Checked, operations: Sequence[Operation], title: str, faults: Sequence[Fault] = (), subtitle: str = ""
) -> str:
    """A self-contained page: it loads and runs nothing, and every text in it is escaped. It follows light and dark."""
    says = verdict(checked)
    tone = {True: "good", False: "bad", "unknown": "odd"}[checked.valid]
    count = f"{checked.operations:,} operations, model {checked.model}" + (f", {subtitle}" if subtitle else "")
    reason = f"<p>{escape(checked.reason)}</p>" if checked.reason else ""
    body = "\n".join(
        (
            f'<h1>{escape(title)}: <span class="{tone}">{says}</span></h1>',
            f'<p class="facts">{escape(count)}</p>{reason}',
            f'<figure class="follows">{picture.svg(checked, operations, f"{title}: {says}", faults)}</figure>',
            '<p class="facts">Point at a bar to read its operation.</p>',
            *(_table(checked, operations) if checked.stuck is not None else ()),
        )
    )
    return whole(title, body)


def whole(title: str, body: str) -> str:
    """A document of its own around `body`, which is HTML."""
    return clean(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<title>{escape(title)}</title>\n'
        f"<style>\n{resources.files('grader.nodes.histories').joinpath('page.css').read_text('utf-8')}{dark.rules()}"
        f"</style></head>\n<body><main>\n{body}\n</main></body></html>\n"
    )


def clean(text: str) -> str:
    """Without what UTF-8 cannot hold: half a surrogate pair, as JSON may bring it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _table(checked: Checked, operations: Sequence[Operation]) -> Iterator[str]:
    clock = Clock.of(operations)
    heads = (f"from, {clock.unit}", f"to, {clock.unit}", "process", "operation", "outcome")
    yield "<h2>Around the violation</h2>"
    yield f'<div class="table"><table><thead><tr>{"".join(f"<th>{escape(head)}</th>" for head in heads)}</tr></thead>'
    yield "<tbody>"
    pair = {id(one) for one in checked.pair}
    for one in view.rows(checked, operations):
        cells = "".join(
            f"<td>{escape(cell)}</td>" for cell in cells_of(one, clock, checked.consistency == "sequential")
        )
        bad = ' class="bad"' if id(one) in pair else ""
        yield f"<tr{bad}>{cells}</tr>"
    yield "</tbody></table></div>"


def cells_of(one: Operation, clock: Clock, keyed: bool) -> tuple[str, str, str, str, str]:
    """From, to, process, operation, outcome; with its key if several keys are shown."""
    end = "never" if one.end == NEVER else clock.number(one.end)
    said = words.done(one) + (f" on {words.name(one.key)}" if keyed and one.key is not None else "")
    return clock.number(one.start), end, called(one.process), said, words.outcome(one)
