"""Of collectives that only repeat, the first and the last are drawn; whatever is another is not left out."""

from __future__ import annotations

import re

import pytest
from builders import Script

from grader.trace import diagram
from grader.trace.events import RECV, SEND

GATHER, SCATTER = ("all_gather_into_tensor", 8), ("reduce_scatter_tensor", 16)
OTHER = ("all_gather_into_tensor", 24)


def drawn(calls: list[tuple[str, int]], message_after: int = -1) -> tuple[int, list[str]]:
    """How many collectives are drawn, and the words where some are left out."""
    script = Script(2)
    for number, (name, size) in enumerate(calls):
        for rank in range(2):
            script.join(rank, name, size)
        if number == message_after:
            script.call(0, SEND, 1)
            script.call(1, RECV, 0)
    svg = diagram.svg(script.trace, "t")
    return len(re.findall(r"<title>\w+ on ranks", svg)), re.findall(">(… [^<]*)</text>", svg)


@pytest.mark.parametrize(
    ("calls", "shown", "words"),
    [
        ([GATHER] * 5, 5, []),
        ([GATHER] * 6, 2, ["… 4 more like this"]),
        ([SCATTER, GATHER] * 10, 4, ["… the 2 collectives above, 8 more times"]),
        ([SCATTER, SCATTER, GATHER, OTHER] * 3, 8, ["… the 4 collectives above, 1 more time"]),
        ([GATHER] * 6 + [SCATTER] * 7, 4, ["… 4 more like this", "… 5 more like this"]),
        ([GATHER] * 6 + [OTHER] + [GATHER] * 2, 5, ["… 4 more like this"]),
        ([("broadcast", size) for size in range(9)], 9, []),
    ],
)
def test_what_repeats_is_folded(calls: list[tuple[str, int]], shown: int, words: list[str]) -> None:
    assert drawn(calls) == (shown, words)


def test_what_has_a_message_in_it_is_not_folded() -> None:
    assert drawn([GATHER] * 6, message_after=3) == (6, [])
