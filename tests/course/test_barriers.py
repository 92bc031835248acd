"""A snapshot of an operator with a slow input: what counts twice after a crash, who waits, what the snapshot holds."""

from __future__ import annotations

import pytest

from courselib.barriers import RECORDS, WAYS, alignment


@pytest.mark.parametrize(
    ("way", "twice", "waited", "kept"), [("aligned", 0, 8.0, 0), ("not aligned", 8, 0.0, 0), ("unaligned", 0, 0.0, 3)]
)
def test_what_each_way_costs(way: str, twice: int, waited: float, kept: int) -> None:
    found = alignment(way)
    assert (found.twice, found.waited, found.kept) == (twice, waited, kept)


@pytest.mark.parametrize("way", WAYS)
def test_no_record_is_lost(way: str) -> None:
    counts = alignment(way).counts
    assert len(counts) == 2 * RECORDS
    assert min(counts.values()) == 1


def test_records_that_are_held_back_are_drawn_so() -> None:
    assert "held back" in alignment("aligned").picture.svg
    assert "held back" not in alignment("unaligned").picture.svg


def test_another_way_is_refused() -> None:
    with pytest.raises(ValueError, match="no way 'hoped'"):
        alignment("hoped")
