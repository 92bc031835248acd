"""Space-time diagrams: every element is there, in its own colour, and no word lies on another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from builders import Recording
from runs import RUNS, Run, ring, ring_deadlock

from grader.trace import diagram, heatmap, labels, scene, style
from grader.trace.events import SEND, Trace

SVG = "{http://www.w3.org/2000/svg}"
RIGHT_RUNS = [name for name in RUNS if not any(w in name for w in ("deadlock", "mismatch", "missing", "fault", "far"))]


def picture(run: Run, title: str = "A title", subtitle: str = "a subtitle") -> str:
    trace, cycle, marks = run
    return diagram.svg(trace, title, subtitle, cycle, marks)


def titles(text: str) -> list[str]:
    return [found.text or "" for found in ElementTree.fromstring(text).iter(f"{SVG}title")]


def written(text: str) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    """Every piece of text and, about, the box it fills (left, top, right, bottom)."""

    def walk(
        element: ElementTree.Element, dx: float, dy: float
    ) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
        moved = re.match(r"translate\(([-\d.]+) ([-\d.]+)\)", element.get("transform", ""))
        if moved:
            dx, dy = dx + float(moved[1]), dy + float(moved[2])
        if element.tag == f"{SVG}text":
            words, size = element.text or "", float(element.get("font-size", "12"))
            x, y = float(element.get("x", "0")) + dx, float(element.get("y", "0")) + dy
            wide = labels.width(words, size) * 0.95  # which is estimated on the safe side
            x -= wide * {"middle": 0.5, "end": 1.0}.get(element.get("text-anchor", ""), 0.0)
            yield words, (x, y - 0.74 * size, x + wide, y + 0.2 * size)
        for child in element:
            yield from walk(child, dx, dy)

    yield from walk(ElementTree.fromstring(text), 0.0, 0.0)


@pytest.mark.parametrize("name", RUNS)
def test_no_word_lies_on_another_or_outside(name: str) -> None:
    text = picture(RUNS[name](), "A title as long as they get: ring_all_reduce on 16 ranks: mismatched collective")
    root = ElementTree.fromstring(text)
    wide, tall = float(root.get("width", "0")), float(root.get("height", "0"))
    found = list(written(text))
    for at, (words, box) in enumerate(found):
        assert box[0] >= 0, f"{words!r} leaves the picture to the left"
        assert box[2] <= wide, f"{words!r} leaves the picture to the right"
        assert 0 <= box[1] < box[3] <= tall, f"{words!r} leaves the picture"
        for other, there in found[at + 1 :]:
            apart = box[2] <= there[0] or there[2] <= box[0] or box[3] <= there[1] or there[3] <= box[1]
            assert apart, f"{words!r} and {other!r} overlap"


@pytest.mark.parametrize("name", RUNS)
def test_a_picture_is_the_same_each_time(name: str) -> None:
    assert picture(RUNS[name]()) == picture(RUNS[name]())


@pytest.mark.parametrize("name", RIGHT_RUNS)
def test_red_is_for_what_is_wrong_only(name: str) -> None:
    text = picture(RUNS[name]())
    assert style.BAD not in text.split("</defs>")[1]


@pytest.mark.parametrize("ranks", [2, 4, 9, 16])
def test_every_message_tells_its_bytes_and_ranks(ranks: int) -> None:
    trace = ring(ranks, 2)
    told = [
        title for title in titles(picture((trace, (), {}))) if re.match(r"8 bytes from rank \d+ to rank \d+;", title)
    ]
    assert len(told) == len(trace.messages) == 2 * ranks


ELEMENTS = {
    "a message": ("two ranks", "8 bytes from rank 0 to rank 1; began round 0; arrived round 1; took 1 round"),
    "the learner's lines": ("two ranks", "rank 0 sends: line 7; rank 1 receives: line 7"),
    "a wait": ("pipeline", "rank 1 waits to receive from rank 0; bytes 65536; since 0 ms; until 2.5 ms; took 2.5 ms"),
    "computing": ("training step", "rank 0 computed; from 0 µs; to 40 µs; took 40 µs; rank 0: line 5"),
    "a collective": ("training step", "all_reduce on ranks 0-3; bytes per rank 4194304; joined first rank 0 at 40 µs"),
    "a group": ("odd group", "group 1 (ranks 0, 2, 3, 5)"),
    "a mismatch": ("mismatch", "not the same collective: all_reduce on ranks 0, 1, 3, broadcast on rank 2"),
    "a rank that did not join": (
        "missing rank",
        "all_reduce on ranks 0-2; bytes per rank 1024; joined all at 2 ms; never",
    ),
    "a wait for ever": ("deadlock of 4", "rank 0 waits to send to rank 1; bytes 16; since round 1; until never"),
    "a killed rank": ("faults", "rank 4 was killed; at 3 ms"),
    "a slowed rank": ("faults", "rank 1 was slowed down; from 0 ms; to 4 ms"),
    "a lost message": ("faults", "4096 bytes from rank 0 to rank 1: lost on the way; posted 2 ms"),
    "a late message": ("faults", "fault delayed by 3 ms"),
    "a partition": ("faults", "no message passed between rank 2 and rank 3; from 5 ms; to 8 ms"),
    "a rank cut off": ("far partition", "no message passed between rank 4 and any other"),
    "what was never received": ("faults", "256 bytes from rank 0 to rank 1: never received; posted 5 ms"),
}


@pytest.mark.parametrize(("name", "told"), ELEMENTS.values(), ids=ELEMENTS.keys())
def test_each_element_hovers_with_what_it_was(name: str, told: str) -> None:
    assert any(told in title for title in titles(picture(RUNS[name]())))


LABELS = {
    "a collective's name and bytes": ("training step", "all_reduce 4 MiB"),
    "one mismatched name": ("mismatch", "broadcast"),
    "the other mismatched name": ("mismatch", "all_reduce"),
    "a size for all": ("ring of 8", "message, 3 MiB each"),
    "a size for a round": ("doubling on 16", "8 KiB each"),
    "what a rank waits in": ("deadlock of 4", "in send"),
    "and at which line": ("deadlock of 4", "line 16"),
    "how a rank broke": ("missing rank", "raised ValueError"),
    "rounds": ("ring of 4", "round"),
    "whole virtual seconds are rounds": ("odd group", "round"),
    "real time": ("pipeline", "time, ms"),
    "time left out": ("broken axis", "10 ms"),
    "never received": ("faults", "never received"),
    "a late message": ("faults", "3 ms late"),
}


@pytest.mark.parametrize(("name", "label"), LABELS.values(), ids=LABELS.keys())
def test_what_is_written_in_the_picture(name: str, label: str) -> None:
    assert label in [words for words, _ in written(picture(RUNS[name]()))]


def test_text_is_escaped() -> None:
    trace, cycle, marks = ring_deadlock(3)
    text = diagram.svg(trace, "a <title> & more", '"sub" <b>', cycle, {0: "raised <script>"} | marks)
    assert "<script>" not in text
    assert "a &lt;title&gt; &amp; more" in text
    ElementTree.fromstring(text)


def test_two_pictures_on_one_page_do_not_share_names() -> None:
    names = [re.findall(r' id="(\w+)"', picture(RUNS[name]())) for name in ("pipeline", "faults")]
    assert names[0]
    assert not set(names[0]) & set(names[1])


def test_many_messages_are_drawn_thin_and_a_blot_is_not_drawn_at_all() -> None:
    thin = picture((ring(4, 100), (), {}))
    assert 'stroke-width="0.8"' in thin.split("</defs>")[1]
    assert not any(words.endswith(" B") for words, _ in written(thin)), "no sizes beside thin arrows"
    found = scene.of(ring(4, 400))
    assert diagram.draw(found, "t", "")[0] == heatmap.draw(found, "t", "")[0]


def test_a_long_run_stays_a_page_or_so() -> None:
    assert float(ElementTree.fromstring(picture((ring(4, 180), (), {}))).get("height", "0")) < 1700


def test_arrows_of_a_crossing_cycle_do_not_lie_on_each_other() -> None:
    dashed = re.findall(r'<path d="M([\d.]+) ([\d.]+)L([\d.]+) \2" stroke="[^"]+" stroke-dasharray="4 3"/>',
                        picture(RUNS["crossing deadlock"]()))  # fmt: skip
    assert len(dashed) == 5
    for at, (x1, y, x2) in enumerate(dashed):
        low, high = sorted((float(x1), float(x2)))
        for x3, other, x4 in dashed[at + 1 :]:
            start, end = sorted((float(x3), float(x4)))
            assert y != other or high <= start + 6 or end <= low + 6


def test_a_lost_message_is_not_taken_for_the_one_that_came_after_it() -> None:
    run = Recording(2)
    run.post(0, SEND, 1, 1, 100)
    run.span(0, "dropped", 1, 2, peer=1)
    run.message(0, 1, 3, 0, 1, 200)
    told = titles(picture((run.done(), (), {})))
    assert any("100 bytes from rank 0 to rank 1: lost" in title for title in told)
    assert any("200 bytes from rank 0 to rank 1; began 3 µs" in title for title in told)


def test_a_replayed_trace_shows_who_was_killed() -> None:
    trace: Trace = ring(3, 1)
    run = Recording(3)
    run.span(1, "killed", 5, 5)
    trace.spans = run.trace.spans
    assert any(title.startswith("rank 1 was killed; at round 1") for title in titles(picture((trace, (), {}))))


def torn(run: Recording) -> bool:
    return "time left out" in [words for words, _ in written(picture((run.done(), (), {})))]


def test_a_straggler_is_shown_at_its_true_length() -> None:
    run = Recording(3)
    run.collective("all_reduce", {rank: run.compute(rank, 0, 30 if rank == 2 else 10) for rank in range(3)}, 5)
    assert not torn(run)


def test_waiting_is_shortened_only_where_the_rest_would_be_lost() -> None:
    run = Recording(2)
    for step in range(4):
        run.message(0, 1, step, step, 1)
    run.message(0, 1, 4, 4, 1, starts=2000)
    assert torn(run)


def test_making_a_group_is_not_drawn() -> None:
    run = Recording(2)
    run.collective("new_group", {0: 0, 1: 0}, 0, 0)
    run.collective("barrier", {0: 0, 1: 0}, 3, 0)
    told = titles(picture((run.done(), (), {})))
    assert not any("new_group" in title for title in told)
    assert any(title.startswith("barrier on ranks 0, 1") for title in told)


def test_a_band_passes_by_ranks_that_take_no_part_and_by_no_others() -> None:
    passing = "passes by a rank that takes no part"
    assert passing in [words for words, _ in written(picture(RUNS["odd group"]()))]
    run = Recording(3)
    for rank in (0, 2):
        run.never(rank, "barrier", 1, 0)
    words = [words for words, _ in written(picture((run.done(), (), {})))]
    assert "never joined" in words
    assert passing not in words
