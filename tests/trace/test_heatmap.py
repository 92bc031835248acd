"""Heat maps: the picture of a run on more than 16 ranks."""

from __future__ import annotations

import random
from xml.etree import ElementTree

import pytest
from builders import Recording
from runs import RUNS, ring, ring_deadlock, training_step

from grader.trace import diagram, heatmap, matrix, scene
from grader.trace.events import Trace

SVG = "{http://www.w3.org/2000/svg}"


def words(text: str) -> list[str]:
    return [found.text or "" for found in ElementTree.fromstring(text).iter(f"{SVG}text")]


def busy(ranks: int, events: int) -> Trace:
    """A random run with no pattern, the worst for a map that joins equal bins."""
    run, random_ = Recording(ranks), random.Random(1)
    now = [0.0] * ranks
    for _ in range(events):
        one, other = random_.sample(range(ranks), 2)
        now[one] = run.compute(one, now[one], now[one] + random_.random())
        start = max(now[one], now[other])
        run.message(one, other, now[one], now[other], 0.3, random_.randrange(1, 10**6), starts=start)
        now[one] = now[other] = start + 0.3
    return run.done()


def test_beyond_sixteen_ranks_the_picture_is_a_heat_map() -> None:
    assert "bytes from rank (down) to rank (across)" not in words(diagram.svg(ring(16, 1), "t"))
    assert "bytes from rank (down) to rank (across)" in words(diagram.svg(ring(17, 1), "t"))


WORST = {
    "a ring of 1024": lambda: ring(1024, 3),
    "any messages between 1024": lambda: busy(1024, 8000),
    "any messages between 200": lambda: busy(200, 8000),
}


@pytest.mark.parametrize("name", WORST)
def test_a_heat_map_stays_small(name: str) -> None:
    text = diagram.svg(WORST[name](), "t")
    assert len(text) < 300_000
    ElementTree.fromstring(text)


def test_rows_of_many_ranks_are_joined() -> None:
    assert len(heatmap._rows(1024)) == 256
    assert heatmap._rows(1000)[-1] == (996, 997, 998, 999)
    assert heatmap._rows(20) == [(rank,) for rank in range(20)]


def test_a_bin_is_what_most_of_it_was() -> None:
    run = Recording(20)
    run.compute(0, 0, 6)
    run.message(0, 1, 6, 0, 4)
    found = scene.of(run.done())
    intervals = heatmap._intervals(found)
    assert heatmap._majority(found, (0,), intervals, 2)[0] == [heatmap.COMPUTING, heatmap.MOVING]
    assert heatmap._majority(found, (1,), intervals, 2)[0] == [heatmap.WAITING, heatmap.MOVING]
    assert heatmap._majority(found, (2,), intervals, 2)[0] == [heatmap.DONE, heatmap.DONE]
    assert heatmap._majority(found, (0, 2, 3), intervals, 2)[0] == [heatmap.DONE, heatmap.DONE]


def test_the_ranks_of_a_deadlock_are_listed_and_marked() -> None:
    trace, cycle, marks = ring_deadlock(20)
    text = diagram.svg(trace, "t", "", cycle, marks)
    told = " ".join(words(text))
    assert "Deadlock of 20 ranks: 0 → 1 → 2" in told
    assert "→ 19 → 0" in told
    assert "forever" in told
    assert text.count(f'fill="{heatmap.BAD}"') >= 20


def test_the_matrix_has_totals_and_a_scale() -> None:
    told = words(diagram.svg(busy(40, 500), "t"))
    assert any(word.endswith("in 500 messages") for word in told)
    assert any(" to " in word and "KiB" in word for word in told)


def test_collectives_are_counted_and_no_empty_matrix_is_drawn() -> None:
    told = words(diagram.svg(training_step(24)[0], "t"))
    assert "4 collectives, up to 4 MiB per rank" in told
    assert "sent" not in told


def test_a_matrix_of_many_ranks_is_joined() -> None:
    body, _ = matrix.draw(scene.of(ring(1024, 1)), 0, 0)
    assert sum(part.count("h3.5") for part in body) >= 64


def test_faults_are_told_in_words() -> None:
    run = Recording(20)
    run.compute(3, 0, 10)
    run.span(3, "slowed", 0, 10)
    run.span(5, "killed", 4, 4)
    run.post(0, 1, 1, 1, 8)
    run.span(0, "dropped", 1, 2, peer=1)
    told = words(diagram.svg(run.done(), "t", "", (), {7: "raised ValueError"}))
    assert {"rank 5: killed", "rank 3: slowed down", "1 message lost on the way", "rank 7: raised ValueError"} <= set(
        told
    )


def test_interactive_rows_have_a_card_each() -> None:
    text, cards = heatmap.draw(scene.of(RUNS["ring of 32"]()[0]), "t", "", interactive=True)
    assert text.count("data-i=") == len(cards) == 32
