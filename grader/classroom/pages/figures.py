"""Diagrams on a page: checked, each with names of its own, and what they say of the learner's lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree import ElementTree

from markupsafe import Markup

from grader.classroom.pages.words import clean
from grader.says import in_bytes
from grader.trace import dark, moments

_SVG = "{http://www.w3.org/2000/svg}"
_DRAWN = frozenset({"svg", "g", "defs", "pattern", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon",
                    "text", "tspan", "title", "desc", "metadata"})  # fmt: skip
_MOST_CHARACTERS = 3_000_000
SMALLEST = 0.75  # of its own size: letters of 11 pixels can still be read
_MESSAGE = re.compile(r"(\d+) bytes from rank \d+ to (?:rank \d+|any rank)\b")
_SENDS = re.compile(r"rank \d+ sends: line (\d+)")
_RECEIVES = re.compile(r"rank \d+ receives: line (\d+)")
_POSTS = re.compile(r"; rank \d+: line (\d+)$")
_JOINS = re.compile(r"(\w+): line (\d+)")


@dataclass
class Talk:
    """What one line did in one run: the sizes of its messages (bytes, how often), receives, collectives by name."""

    sent: Counter[int] = field(default_factory=Counter)
    received: int = 0
    joined: Counter[str] = field(default_factory=Counter)

    @property
    def words(self) -> str:
        """ "sends 6 messages of 24 bytes"."""
        told = []
        if self.sent:
            count, sizes = self.sent.total(), sorted(self.sent)
            size = in_bytes(sizes[0]) if len(sizes) == 1 else f"{sizes[0]:,} to {in_bytes(sizes[-1])}"
            told.append(f"sends {count} message{'s' * (count > 1)} of {size}")
        if self.received:
            told.append(f"receives {self.received} message{'s' * (self.received > 1)}")
        told += [f"calls {name}" for name in sorted(self.joined)]
        return ", ".join(told)


@dataclass(frozen=True)
class Figure:
    """A diagram that is fit for a page."""

    root: ElementTree.Element
    follows: bool

    def html(self, number: int) -> Markup:
        """The figure; `number` is one that no other figure of the page has, so that no two share a name."""
        kind = "figure follows" if self.follows else "figure light"
        _rename(self.root, f"d{number}-")
        self.root.set("style", f"min-width: {_least_width(self.root):.0f}px")
        drawn = ElementTree.tostring(self.root, "unicode", short_empty_elements=True)
        return Markup(f'<div class="{kind}" tabindex="0" role="group" aria-label="Diagram of the run">{drawn}</div>')

    def talk(self) -> dict[int, Talk]:
        """What the run's messages and collectives say of the learner's lines (1-based)."""
        found: dict[int, Talk] = {}
        for words in self._titles():
            message = _MESSAGE.match(words)
            if message:
                for line in [*_SENDS.findall(words), *_POSTS.findall(words)]:
                    found.setdefault(int(line), Talk()).sent[int(message[1])] += 1
                for line in _RECEIVES.findall(words):
                    found.setdefault(int(line), Talk()).received += 1
            elif "; joined " in words:
                for name, line in _JOINS.findall(words):
                    found.setdefault(int(line), Talk()).joined[name] += 1
        return found

    def _titles(self) -> Iterator[str]:
        for element in self.root.iter("title"):
            yield element.text or ""


def figure(svg: str | None, playable: bool = False) -> Figure | None:
    """The diagram if it is one: nothing in it but shapes and text, and, if `playable`, what its player needs. None
    where there is none that can be shown.

    Diagrams are our own; but they quote the learner, and a page is opened by a teacher.
    """
    if not svg or len(svg) > _MOST_CHARACTERS or "<!" in svg:
        return None
    try:
        root = ElementTree.fromstring(clean(svg if playable else moments.still(svg), _MOST_CHARACTERS))
    except ElementTree.ParseError:
        return None
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        if element.tag not in _DRAWN or any(not _harmless(*pair) for pair in element.attrib.items()):
            return None
    if root.tag != "svg":
        return None
    root.set("class", "picture")
    return Figure(root, dark.follows(svg))


def _least_width(root: ElementTree.Element) -> float:
    """Pixels down to which a picture may shrink to fit its place; what is wider than the place is scrolled."""
    try:
        return SMALLEST * float(root.get("width", ""))
    except ValueError:
        return 0.0


def _harmless(name: str, value: str) -> bool:
    """Whether an attribute only draws: it runs nothing, and refers to nothing outside its picture."""
    lower = name.lower()
    if lower.startswith("on") or "href" in lower or lower in ("style", "src") or "{" in name:
        return False
    return "url(" not in value or re.fullmatch(r"url\(#[\w-]+\)", value) is not None


def _rename(root: ElementTree.Element, prefix: str) -> None:
    """Put `prefix` before every name in the picture and every reference to one."""
    for element in root.iter():
        for attribute, value in element.attrib.items():
            if attribute == "id":
                element.set(attribute, prefix + value)
            elif value.startswith("url(#"):
                element.set(attribute, f"url(#{prefix}{value[5:]}")
