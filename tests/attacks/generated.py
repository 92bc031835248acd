"""Attacks that are too large to keep as files: made by a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from corpus import Attack, read

_SECTION = "## {name}: {told}\nfamily: {family}; tries: harm; earned: 0; ends: {ends}\n```python\n\n```\n"


def _lines() -> str:
    return "x = 1\n" * 4_000_000 + "def ring_all_reduce(tensor): pass\n"


def _one_line() -> str:
    return "x = [" + "1," * 10_000_000 + "]\ndef ring_all_reduce(tensor): pass\n"


def _parentheses() -> str:
    return "x = " + "(" * 100_000 + "1" + ")" * 100_000 + "\n"


def _minus() -> str:
    return "x = " + "-" * 1_000_000 + "1\n"


def _control_characters() -> str:
    return (
        "".join(f"# {chr(c)}\n" for c in range(1, 32) if c not in (10, 13)) + "raise ValueError('\x1b]0;owned\x07')\n"
    )


_MADE: dict[str, tuple[str, str, str, Callable[[], str]]] = {
    "four_million_lines": ("A source of 24 MB in four million lines.", "bombs", "any", _lines),
    "one_line_of_20_mb": ("A source of 20 MB in one line, a list that must be compiled.", "bombs", "any", _one_line),
    "a_hundred_thousand_parentheses": (
        "Parentheses nested a hundred thousand deep.", "bombs", "syntax_error", _parentheses,
    ),
    "a_million_minus_signs": (
        "An expression nested a million deep: the compiler recurses.", "bombs", "syntax_error, crash, missing_function",
        _minus,
    ),
    "control_characters_in_the_source": (
        "Lines full of control characters and terminal codes, one of which is quoted.", "injection",
        "crash, syntax_error", _control_characters,
    ),
}  # fmt: skip


def attacks() -> list[Attack]:
    sections = [
        _SECTION.format(name=name, told=told, family=family, ends=ends)
        for name, (told, family, ends, _) in _MADE.items()
    ]
    found = read("\n".join(sections), "ring_all_reduce")
    return [replace(each, text=make()) for each, (*_, make) in zip(found, _MADE.values(), strict=True)]
