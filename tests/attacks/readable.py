"""Is what a verdict shows safe to show? In a terminal, in a browser, in a file."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from html.parser import HTMLParser
from unittest import mock
from xml.etree import ElementTree

from rich.console import Console

from grader.classroom import report, terminal
from grader.trace import moments
from grader.verdict import Verdict

MOST_CHARACTERS = 3_000_000  # of a report with all its pictures
MOST_MESSAGE = 2_000
_TAGS = {
    "script",
    "iframe",
    "object",
    "embed",
    "img",
    "link",
    "form",
    "base",
    "meta",
    "foreignobject",
    "video",
    "audio",
}
_ANSI = re.compile(r"\x1b\[[0-9;]*m")  # what rich itself writes: colours


class _Tags(HTMLParser):
    """Collects what a page of ours has no business to hold."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _TAGS:
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            if name == "xmlns":
                continue
            if name.startswith("on") or (value or "").strip().lower().startswith(("javascript:", "data:", "http")):
                self.found.append(f"{name}={value}")


def problems(verdict: Verdict) -> list[str]:
    """What is unsafe or unusable in the reports on this verdict, in words."""
    found = []
    for check in verdict.checks:
        if check.diagnosis and len(check.diagnosis.message) > MOST_MESSAGE:
            found.append(f"{check.name}: a message of {len(check.diagnosis.message)} characters")
            break
    for name, text in (("terminal", _terminal(verdict)), ("page", report.verdict_html(verdict))):
        if bad := _unprintable(text):
            found.append(f"the {name} shows {', '.join(bad)}")
    html = report.verdict_html(verdict)
    if len(html) > MOST_CHARACTERS:
        found.append(f"a page of {len(html)} characters")
    tags = _Tags()
    tags.feed(html.replace(moments.script(), "", 1))  # the one script of ours, as we wrote it
    found += [f"the page has {what[:100]}" for what in dict.fromkeys(tags.found)]
    for check in verdict.checks:
        if check.diagram:
            try:
                ElementTree.fromstring(check.diagram)
            except (ElementTree.ParseError, ValueError) as error:
                found.append(f"the picture of {check.name} is no XML: {error}")
                break
    text = verdict.report_json()
    json.loads(text)
    try:
        html.encode()
        json.dumps(verdict.to_json(), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        found.append(f"a report that cannot be written to a file: {error}"[:200])
    return found


def _terminal(verdict: Verdict) -> str:
    written = io.StringIO()
    with mock.patch.object(terminal, "Console", return_value=Console(file=written, force_terminal=True, width=120)):
        shown = terminal.TerminalReport()
    for check in verdict.checks:
        shown.check(check)
    shown.summary(verdict)
    return _ANSI.sub("", written.getvalue())


def _unprintable(text: str) -> list[str]:
    """Characters that move the cursor, turn the text round, or are none."""
    kinds = {c: unicodedata.category(c) for c in set(text)}
    bad = [c for c, kind in kinds.items() if kind in ("Cc", "Cs") and c not in "\n\t"]
    bad += [c for c in kinds if "\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069" or c in "\u200e\u200f\u061c"]
    return sorted(f"U+{ord(c):04X}" for c in bad)
