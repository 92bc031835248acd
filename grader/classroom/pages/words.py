"""Text of strangers on a page: cut to a sensible length, without control characters, escaped."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container

from markupsafe import Markup, escape

ODD = "\N{REPLACEMENT CHARACTER}"  # what stands where a character was that would do something
MOST_MARKS = 4  # accents on one letter; more of them paint over the lines above
_JOINERS = "\u200c\u200d"  # Persian, Hindi and emoji need them
_RARE = re.compile(r"[^\x20-\x7e\n\t]+")  # all but plain ASCII
_LINE = re.compile(r"\bline (\d{1,7})\b")


def clean(text: str, most: int = 2000) -> str:
    """`text` without characters that control, hide or turn round what is around them; cut to `most` characters.

    Newlines and tabs stay. Lone surrogates go too: what is left can be written as UTF-8.
    """
    left_out = len(text) - most
    kept = _RARE.sub(lambda run: _tamed(run[0]), text[:most])
    return kept + (f"… ({left_out:,} more characters)" if left_out > 0 else "")


def _tamed(run: str) -> str:
    kept: list[str] = []
    marks = 0
    for character in run:
        kind = unicodedata.category(character)
        marks = marks + 1 if kind in ("Mn", "Me") else 0
        odd = kind in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp") and character not in _JOINERS
        if marks <= MOST_MARKS:
            kept.append(ODD if odd else character)
    return "".join(kept)


def name(text: str) -> Markup:
    """A person's name or identifier, which may be written from right to left."""
    return Markup("<bdi>{}</bdi>").format(clean(text, 120))


def sentence(text: str, lines: Container[int] = ()) -> Markup:
    """A diagnosis' words as HTML: what stands between backticks is code, and "line 7" leads to line 7 of the listing
    if that is in `lines`."""
    pieces = str(escape(clean(text, 3000))).split("`")
    if len(pieces) % 2 == 0:  # a backtick without its partner is no code
        pieces[-2:] = ["`".join(pieces[-2:])]
    return Markup("".join(f"<code>{each}</code>" if at % 2 else _linked(each, lines) for at, each in enumerate(pieces)))


def _linked(piece: str, lines: Container[int]) -> str:
    def link(found: re.Match[str]) -> str:
        return f'<a href="#L{found[1]}">{found[0]}</a>' if int(found[1]) in lines else found[0]

    return _LINE.sub(link, piece)


def safe(text: str, most: int = 2000) -> str:
    """`text` as HTML, for contents and for values of attributes in double quotes."""
    return str(escape(clean(text, most)))


def number(value: float) -> str:
    """Points and the like, without superfluous zeros: "3", "2.5"."""
    return f"{value:.4g}"
