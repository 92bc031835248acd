"""A verdict for people: in the terminal, and in a notebook with the pictures of the learner's own runs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.markup import escape as plain
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.classroom import numbers
from grader.says import counted, spans
from grader.trace import dark, moments
from grader.verdict import CheckResult, Verdict

if TYPE_CHECKING:
    from grader.classroom.running import Ran
    from grader.doctor import Finding

MARK = {"pass": ("✓", "green"), "fail": ("✗", "red"), "error": ("!", "magenta"), "skipped": ("-", "yellow")}
_SHOWN_OUTPUT = 2000
_SHOWN_RANKS = 16


def print_run(ran: Ran, *remarks: str) -> None:
    """A run for the terminal: its ending, what was found, every rank's counts."""
    console = Console(highlight=False)
    colour = "green" if ran.well else "yellow" if ran.run.finished else "red"
    took = "" if ran.virtual_seconds is None else f", {numbers.in_seconds(ran.virtual_seconds)} of virtual time"
    if took and ran.unit == "round":
        took = f", virtual time {ran.virtual_seconds:g}"
    console.print(f"[bold {colour}]{plain(ran.title)}[/]  {ran.engine}, seed {ran.seed}{took}")
    for found in ran.diagnoses:
        console.print(Padding(f"[{colour}]{found.kind}[/]: {plain(printable(found.message))}", (0, 0, 0, 2)))
    unseen = ran.unseen
    alike: dict[tuple[str, ...], list[int]] = {}
    for row in ran.ranks():
        taken = "unknown" if unseen else "not finished" if row["rounds"] is None else f"{row['rounds']:g}"
        sent, messages = ("unknown" if row[key] is None else f"{row[key]:,}" for key in ("bytes_sent", "messages_sent"))
        alike.setdefault((sent, messages, taken), []).append(row["rank"])
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("rank", "bytes sent", "messages", "rounds"):
        table.add_column(head, justify="right")
    for counts, ranks in list(alike.items())[:_SHOWN_RANKS]:
        table.add_row(spans(ranks, 4).partition(" ")[2], *counts)
    console.print(table)
    if unseen:
        told = "are the kernel's count, with headers" if ran.run.sent else "are unknown"
        more = "" if ran.engine == "sim" or "itself" in unseen else " --engine sim records them."
        console.print(f"The messages of {plain(unseen)} were not recorded here, so bytes {told}.{more}")
    if len(alike) > _SHOWN_RANKS:
        others = sum(map(len, list(alike.values())[_SHOWN_RANKS:]))
        console.print(f"... and {counted(others, 'more rank')} (--json shows all)")
    for remark in filter(None, remarks):
        console.print(plain(remark), soft_wrap=True)


def indented(console: Console, what: RenderableType, left: int) -> None:
    """Print something `left` columns from the edge, without spaces behind its lines: people copy them."""
    options = console.options.update_width(max(console.width - left, 1))
    for line in console.render_lines(what, options, pad=False):
        words = Text.assemble(*((segment.text, segment.style or "") for segment in line))
        words.rstrip()
        console.print(Text(" " * left if words else "").append_text(words), soft_wrap=True)


def printable(text: str) -> str:
    """Without control characters: the text may be a learner's, and the terminal is the teacher's."""
    return "".join(c if c == "\n" or c.isprintable() else "�" for c in text)


def shown(output: str) -> str:
    """The beginning of what was printed, and how much more there is."""
    more = len(output) - _SHOWN_OUTPUT
    cut = f"\n... ({more:,} more characters are not shown here)" if more > 0 else ""
    return printable(output[:_SHOWN_OUTPUT]) + cut


def check_html(result: CheckResult) -> str:
    """One check as a fragment of HTML, diagram included."""
    mark, colour = MARK[result.status]
    parts = [
        '<div style="font-family:system-ui,sans-serif;margin:.4em 0 1em;padding:.5em .8em;'
        f'border-left:4px solid {colour}">',
        f"<b>{mark} {result.points:g} of {result.max_points:g} points</b> &nbsp; {escape(result.title)}",
    ]
    if result.diagnosis:
        found = result.diagnosis
        parts.append(f"<p><code>{escape(found.kind)}</code> {_code(printable(found.message))}</p>")
        if found.expected or found.got:
            parts.append(
                f"<p style='opacity:.75'>expected: {escape(printable(found.expected or '-'))}<br>"
                f"got: {escape(printable(found.got or '-'))}</p>"
            )
    for row in numbers.rows([result]):
        where = f" <span style='opacity:.75'>({escape(row.where)})</span>" if row.where else ""
        told = "; ".join(filter(None, (row.allowed, row.remark)))
        parts.append(f"<div>{escape(row.what)}: <b>{escape(row.yours)}</b>, {escape(told)}{where}</div>")
    if result.diagnosis and result.output:
        printed = escape(shown(result.output))
        parts.append(f"<details><summary>what your code printed</summary><pre>{printed}</pre></details>")
    if result.diagram:
        state = " open" if result.diagnosis else ""
        parts.append(f"<details{state}><summary>your run</summary>{dark.framed(result.diagram)}</details>")
    parts.append("</div>")
    return "\n".join(parts)


def output_html(body: str) -> str:
    """A fragment as a notebook's output: its pictures follow the theme, and can be played."""
    return f"{dark.in_notebooks(body)}\n{body}\n{moments.script()}" if "<svg" in body else body


def _code(message: str) -> str:
    """Escaped, with what stands between backticks set as code."""
    pieces = escape(message).split("`")
    return "".join(f"<code>{piece}</code>" if i % 2 else piece for i, piece in enumerate(pieces))


def verdict_html(verdict: Verdict) -> str:
    """A whole verdict as a fragment of HTML."""
    head = (
        f"<p><b>{escape(verdict.exercise)}: {verdict.points:g} of {verdict.max_points:g} points</b> "
        f"(seed {verdict.seed}, {escape('+'.join(verdict.engines))}, {verdict.seconds:.1f} s)</p>"
    )
    return output_html(head + "\n".join(check_html(check) for check in verdict.checks))


def print_doctor(findings: Sequence[Finding]) -> None:
    """What this machine can run, and what it comes to."""
    console = Console(highlight=False)
    marks = {"ok": "[green]✓[/]", "missing": "[red]✗[/]", "optional": "[yellow]-[/]"}
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    for finding in findings:
        advice = f"\n[dim]{plain(finding.advice)}[/]" if finding.advice else ""
        table.add_row(marks[finding.state], finding.name, f"{plain(finding.detail)}{advice}")
    console.print(table)
    missing, optional = (
        ", ".join(each.name for each in findings if each.state == state) for state in ("missing", "optional")
    )
    told = f"\nMissing: {missing}." if missing else "\nThis machine is ready."
    console.print(f"{told} Only some parts need what else is not here: {optional}." if optional else told)
