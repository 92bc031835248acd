"""Numbers that checks note: the worst of the last run, also where works are done side by side."""

from __future__ import annotations

import math

from grader import tally
from grader.nodes.boxes import Boxes
from grader.verdict import Measured


def test_the_worst_of_the_last_run_is_kept() -> None:
    with tally.collected() as noted:
        for where, yours in (("small", 9), ("large", 3), ("large", 5), ("large", 4)):
            tally.note("bytes", yours, 10, "bytes", where=where)
        for yours in (3, 2, 4):
            tally.note("at once", yours, 2, at_least=True)
        tally.note("never measured", math.inf, 10)
    assert noted == {
        "bytes": Measured("bytes", 5, 10, "bytes", "large"),
        "at once": Measured("at once", 2, 2, at_least=True),
    }


def test_what_nobody_collects_is_forgotten() -> None:
    tally.note("bytes", 1, 2)
    with tally.collected() as noted:
        pass
    assert noted == {}


def test_works_side_by_side_each_keep_their_own() -> None:
    boxes = Boxes(None, None, ())  # type: ignore[arg-type]  # none is asked for anything

    def part(number: int) -> None:
        tally.note(f"part {number}", number, 9)

    def check(number: int) -> set[str]:
        with tally.collected() as noted:
            list(boxes.together([lambda: part(number), lambda: part(number + 1)]))
        return set(noted)

    assert list(boxes.together([lambda: check(1), lambda: check(5)])) == [{"part 1", "part 2"}, {"part 5", "part 6"}]


def test_what_was_collected_apart_is_noted_as_runs_in_their_order() -> None:
    runs = []
    for where, yours in (("first", 9), ("second", 4)):
        with tally.collected() as apart:
            tally.note("bytes", yours, 10, "bytes", where=where)
        runs.append(apart)
    with tally.collected() as noted:
        for apart in runs:
            tally.note_again(apart)
    assert noted == {"bytes": Measured("bytes", 4, 10, "bytes", "second")}
