"""The words that all sentences share."""

from __future__ import annotations

import pytest

from grader import says


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (says.listed([]), ""),
        (says.listed(["n1"]), "n1"),
        (says.listed(name for name in ("n1", "n2")), "n1 and n2"),
        (says.listed([1, 2, 3]), "1, 2 and 3"),
        (says.listed("abc", "or"), "a, b or c"),
        (says.names([3]), "rank 3"),
        (says.names([2, 0, 3]), "ranks 2, 0 and 3"),
        (says.names(range(6), most=6), "ranks 0, 1, 2, 3, 4 and 5"),
        (says.names(range(63), most=6), "ranks 0, 1, 2 and 60 more"),
        (says.spans([3]), "rank 3"),
        (says.spans([7, 1, 0]), "ranks 0, 1, 7"),
        (says.spans([7, 2, 1, 0]), "ranks 0-2, 7"),
        (says.spans(range(0, 20, 2), most=3), "ranks 0, 2, 4, ... 10 ranks"),
        (says.some([4, 5, 6], 3), "4, 5, 6"),
        (says.some([4, 5, 6], 2), "4, 5, ..."),
        (says.some([], 2), ""),
        (says.counted(1, "rank"), "1 rank"),
        (says.counted(0, "rank"), "0 ranks"),
        (says.counted(2000, "entry", "entries"), "2,000 entries"),
        (says.in_bytes(1), "1 byte"),
        (says.in_bytes(26112), "26,112 bytes"),
        (says.size(8), "8 B"),
        (says.size(1536), "1.5 KiB"),
        (says.size(200 * 2**20), "200 MiB"),
        (says.size(2**52), "4096 TiB"),
        (says.at(1.5), "1.50 s"),
        (says.at_most(3), "at most 3"),
        (says.at_most(96, "bytes"), "at most 96 bytes"),
        (says.at_least(96, "bytes"), "at least 96 bytes"),
        (says.cut("x" * 60), "x" * 60),
        (says.cut("x" * 61), "x" * 57 + "..."),
        (says.cut("x" * 61, 10), "x" * 7 + "..."),
        (says.short("a"), "'a'"),
        (says.short(["a"] * 60, 12), "['a', 'a'..."),
        (says.shown("two\nlines \x1b[0m"), "two lines ?[0m"),
        (says.shown("x" * 400), "x" * 297 + "..."),
    ],
)
def test_words(got: str, expected: str) -> None:
    assert got == expected


@pytest.mark.parametrize("joint", ["and", "or"])
def test_a_list_of_one_needs_no_joint(joint: str) -> None:
    assert says.listed(["n1"], joint) == "n1"
