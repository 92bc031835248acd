"""What the tests of pages share: small verdicts, hostile words, and what must hold of every page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from grader.verdict import CheckResult, Diagnosis, Verdict

ROOT = Path(__file__).parents[2]
SOURCE = """import torch.distributed as dist


def ring_all_reduce(tensor):
    right = dist.get_rank() + 1
    dist.send(tensor, right)
    dist.recv(tensor, right)
"""
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="40" viewBox="0 0 90 40"><defs><pattern id="pw">'
    '<rect width="5" height="5" fill="#fdf0d5"/></pattern></defs><g><rect width="9" height="9" fill="url(#pw)"/>'
    "<title>24 bytes from rank 0 to rank 1; began round 0; rank 0 sends: line 6; rank 1 receives: line 7</title>"
    "</g></svg>"
)
DEADLOCK = Diagnosis(
    "deadlock",
    "Deadlock, a cycle of 2 ranks: rank 0 waits to send 24 bytes to rank 1 (line 6: `dist.send(tensor, right)`), rank "
    "1 waits to receive 24 bytes from rank 0 (line 7: `dist.recv(tensor, right)`). Start the send with isend.",
    rank=0,
    file="a.py",
    line=6,
    expected="every send meets a recv",
    got="a wait-for cycle 0 -> 1 -> 0",
)
WRONG = Diagnosis(
    "wrong_result",
    "With 2 ranks, 3 int64: on rank 0, 1 of 3 elements are wrong: element 1 holds the value of rank 0 alone.",
    rank=0,
    expected="[4, 9, 2]",
    got="[4, 5 (rank 0 alone), 2]",
)
HOSTILE = {
    "a script": "<script>alert(1)</script>",
    "an end of style": "</style></svg></title></code><img src=x onerror=alert(1)>",
    "an end of CDATA": "]]><svg onload=alert(1)>",
    "quotes": "\"' onmouseover='alert(1)' x=\"",
    "an entity": "&lt;b&gt; &amp; &#60;",
    "a comment": "<!-- --><!doctype html>",
    "colours of a terminal": "\x1b[31mred\x1b]0;title\x07",
    "turned round": "\u202eevil\u202c \u2066x\u2069",
    "null bytes": "a\x00b",
    "half a character": "\ud800 \udfff",
    "separators of lines": "a\u2028b\x0cc\x85d",
    "towers of accents": "a" + "\u0301" * 200,
}
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ud800-\udfff]")


def lost(name: str, found: Diagnosis, points: float = 4, output: str = "", diagram: str | None = SVG) -> CheckResult:
    return CheckResult(name, f"Check {name}", 0, points, "fail", found, diagram, output)


def verdict(*checks: CheckResult) -> Verdict:
    return Verdict("ring_all_reduce", checks, 7, 1.25, ("sim", "gloo"))


PASSED = CheckResult("any_length", "Any length", 3, 3, "pass", None, SVG)


class Page(HTMLParser):
    """A page's elements in order, their ids and links, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()
        self.ids = [value for name, value in self.attributes if name == "id"]
        self.links = [value or "" for name, value in self.attributes if name == "href"]

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] != ["style"]:
            self.text += data


def assert_safe(text: str) -> Page:
    """Nothing on the page runs or loads anything, and every link and name on it holds."""
    page = Page(text)
    assert "default-src 'none'" in text
    assert not {"script", "iframe", "object", "embed", "link", "base", "form", "img", "foreignobject"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "xlink:href")]
    assert len(page.ids) == len(set(page.ids))
    assert not [link for link in page.links if link.startswith("#") and link[1:] not in page.ids]
    assert not CONTROLS.search(text)
    for name in re.findall(r"url\(#([^)]*)\)", text):
        assert name in page.ids
    text.encode()
    return page
