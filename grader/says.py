"""Words of sentences: ranks, lists, numbers of things, sizes, values cut short. Plain data in, text out."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, TextIO


def wrapped(text: str, to: TextIO) -> str:
    """Broken between words if `to` is a terminal, which breaks within them; otherwise as it is."""
    if not to.isatty():
        return text
    wide = textwrap.TextWrapper(shutil.get_terminal_size().columns, break_long_words=False, break_on_hyphens=False)
    return "\n".join(line if len(line) <= wide.width else wide.fill(line) for line in text.split("\n"))


def listed(words: Iterable[object], joint: str = "and") -> str:
    """ "a", "a and b", "a, b and c"; with `joint` "or": "a, b or c"; "" for none."""
    *most, last = [str(word) for word in words] or [""]
    return f"{', '.join(most)} {joint} {last}" if most else last


def names(ranks: Sequence[int], most: int | None = None) -> str:
    """ "rank 3", "ranks 0, 2 and 3" in the order given; of more than `most` the first: "ranks 0, 2, 3 and 5 more"."""
    if most is not None and len(ranks) > most:
        return f"ranks {', '.join(map(str, ranks[:3]))} and {len(ranks) - 3} more"
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {listed(ranks)}"


def spans(ranks: Iterable[int], most: int | None = None) -> str:
    """ "rank 3", "ranks 0-3, 7": runs of three and more shortened; of more than `most` runs the first ones and how many
    ranks there are in all."""
    ordered = sorted(ranks)
    runs: list[list[int]] = []
    for rank in ordered:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    words = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    if most is not None and len(words) > most:
        words = [*words[:most], f"... {len(ordered)} ranks"]
    return f"{'rank' if len(ordered) == 1 else 'ranks'} {', '.join(words)}"


def some(items: Sequence[object], most: int) -> str:
    """The first `most` of some things: "4, 5, 6", "4, 5, ..."."""
    return ", ".join(map(str, items[:most])) + (", ..." if len(items) > most else "")


def counted(number: int, what: str, many: str = "") -> str:
    """ "1 rank", "2,000 ranks"; `many` is the plural where it is not `what` with an s."""
    return f"{number:,} {what if number == 1 else many or what + 's'}"


def in_bytes(size: int) -> str:
    """A size that matters to the byte, as it is: "1 byte", "26,112 bytes"."""
    return "1 byte" if size == 1 else f"{size:,} bytes"


def size(count: float) -> str:
    """A size in three digits: "8 B", "1.5 KiB"."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.3g} {unit}"


def at(seconds: float) -> str:
    """A time of a run of nodes: "1.50 s"."""
    return f"{seconds:.2f} s"


def at_most(limit: object, unit: str = "") -> str:
    """ "at most 3", "at most 96 bytes": what was expected; the caller formats the number."""
    return f"at most {limit} {unit}".rstrip()


def at_least(limit: object, unit: str = "") -> str:
    return f"at least {limit} {unit}".rstrip()


def cut(text: str, most: int = 60) -> str:
    """`text`, or its beginning and "..." where it has more than `most` characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def short(value: Any, most: int = 60) -> str:
    """A value as Python writes it, cut."""
    return cut(repr(value), most)


def shown(text: object, most: int = 300) -> str:
    """What a learner's process said, on one line: cut, and without characters that do something."""
    return "".join(sign if sign.isprintable() else "?" for sign in cut(" ".join(str(text).split()), most))
