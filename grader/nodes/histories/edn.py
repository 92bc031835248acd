"""EDN, as Jepsen writes histories: https://github.com/edn-format/edn, as far as a history needs it.

A parser of our own: the one on PyPI that is kept up (edn-format, on PLY) takes minutes for 100,000 operations, and
brings four more distributions. Keywords and symbols become text, lists, vectors and sets become lists, and a tagged
value is the value: `#jepsen.history.Op{:index 0}` is a dict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_TOKEN = re.compile(
    r"""[\s,]+|;[^\n]*                        # nothing
      |(?P<number>[+-]?\d+N?(?![\w.+*!?<>=/-]))
      |(?P<open>\#\{|[\[({])|(?P<close>[\])}])
      |(?P<word>:?[^\s,;"\[\](){}\\#@^`~][^\s,;"\[\](){}\\@^`~]*)
      |(?P<text>"(?:[^"\\]|\\.)*")
      |(?P<char>\\(?:newline|space|tab|return|u[0-9a-fA-F]{4}|.))
      |(?P<skip>\#_)|(?P<tag>\#[A-Za-z][^\s,;"\[\](){}\\@^`~]*)""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: dict[str, Any] = {"nil": None, "true": True, "false": False}
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_CHARACTERS = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r"}
_DEEPEST, _LONGEST_NUMBER = 100, 400


class NotEdnError(ValueError):
    """A text that is not EDN: what is wrong, and where (a place in the text)."""

    def __init__(self, what: str, place: int) -> None:
        super().__init__(what)
        self.what, self.place = what, place


def looks_like(text: str) -> bool:
    """Whether a history begins as EDN does: JSON has no keywords, tags, lists in parentheses or comments."""
    return re.match(r"[\s,]*(?:[\[(][\s,]*)?(?:\{[\s,]*:|#|;|\()", text) is not None


def values(text: str) -> Iterator[tuple[Any, int]]:
    """The values of a text one after the other, each with the place where it begins. Raises NotEdnError."""
    match = _TOKEN.match
    place, end = 0, len(text)
    stack: list[tuple[str, list[Any], int, list[str]]] = []  # what is open: sign, contents, place, tags before it
    found: list[Any] = []
    before: list[str] = []  # tags and discards that wait for their value
    began = 0
    while place < end:
        token = match(text, place)
        if token is None:
            raise NotEdnError(f"{text[place : place + 20]!r} is not EDN", place)
        kind, word, here = token.lastgroup, token.group(), place
        place = token.end()
        if kind is None:
            continue
        if not stack and not before:
            began = here
        if kind == "number":
            value: Any = _whole_number(word, here)
        elif kind == "open":
            stack.append((word, found, here, before))
            if len(stack) > _DEEPEST:
                raise NotEdnError(f"more than {_DEEPEST} brackets are open", here)
            found, before = [], []
            continue
        elif kind == "close":
            if not stack or _CLOSES[stack[-1][0]] != word or before:
                raise NotEdnError(f"{word} closes nothing", here)
            sign, outer, opened, tags = stack.pop()
            value, found, before = _collected(sign, found, opened), outer, tags
        elif kind == "word":
            value = word[1:] if word[0] == ":" else _WORDS[word] if word in _WORDS else _number(word, here)
        elif kind == "text":
            value = _text(word, here)
        elif kind == "char":
            value = _CHARACTERS.get(word[1:]) or (chr(int(word[2:], 16)) if len(word) == 6 else word[1:])
        else:
            before.append(kind)
            continue
        while before:
            if before.pop() == "skip":
                break
        else:
            found.append(value)
            if not stack:
                yield found.pop(), began
    if stack or before:
        raise NotEdnError(
            f"{stack[-1][0]} is never closed" if stack else "a tag has no value", stack[-1][2] if stack else began
        )


def _collected(sign: str, contents: list[Any], place: int) -> Any:
    if sign != "{":
        return contents
    if len(contents) % 2:
        raise NotEdnError("a map has a key without a value", place)
    try:
        return dict(zip(contents[::2], contents[1::2], strict=True))
    except TypeError:
        raise NotEdnError("a key of a map is a collection", place) from None


def _whole_number(word: str, place: int) -> int:
    if len(word) > _LONGEST_NUMBER:
        raise NotEdnError(f"a number has more than {_LONGEST_NUMBER} digits", place)
    return int(word.rstrip("N"))


def _number(word: str, place: int) -> Any:
    """A word that is no keyword: a symbol, which is text here, if not a number with a fraction."""
    if word[0].isdigit() or (word[0] in "+-" and word[1:2].isdigit()):
        try:
            return float(word.rstrip("M"))
        except ValueError:
            raise NotEdnError(f"{word[:20]} is no number", place) from None
    return word


def _text(word: str, place: int) -> str:
    try:
        return str(json.loads(word, strict=False))
    except ValueError:
        raise NotEdnError(f"{word[:20]} has an escape that EDN does not know", place) from None
