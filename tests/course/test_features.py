"""The feature pipeline of chapter 20: streams that see all agree with the batch, and repeated days count once."""

from __future__ import annotations

import pytest

from courselib.features import Event, backfilled, batch, delivered, streamed, wrong

EVENTS = delivered(users=20, count=3000, seed=3, days=3.0, doubled=0.05)
FOR_EVER = 1e9


def test_events_come_in_order_and_never_before_they_happen() -> None:
    assert [e.came for e in EVENTS] == sorted(e.came for e in EVENTS)
    assert all(e.came >= e.at for e in EVENTS)
    assert len(EVENTS) > len({e.id for e in EVENTS}) == 3000


def test_a_stream_that_waits_for_ever_is_right() -> None:
    found = streamed(EVENTS, 600, FOR_EVER)
    assert (found.counts, found.dropped) == (batch(EVENTS, 600), 0)


def test_without_ids_doubles_are_counted_twice() -> None:
    found = streamed(EVENTS, 600, FOR_EVER, distinct=False)
    assert found.counts.total() == len(EVENTS)


def test_a_short_watermark_drops_and_keeps_less_open() -> None:
    short, long = streamed(EVENTS, 600, 0), streamed(EVENTS, 600, 86400)
    assert short.dropped > long.dropped
    assert short.most_open < long.most_open
    assert wrong(short.counts, batch(EVENTS, 600)) > wrong(long.counts, batch(EVENTS, 600))


def test_an_event_beyond_the_watermark_is_dropped() -> None:
    events = [Event(0, 1, 10.0, 11.0), Event(1, 1, 100.0, 101.0), Event(2, 1, 5.0, 102.0)]
    found = streamed(events, 10, 50)
    assert (found.dropped, found.counts) == (1, {(1, 1): 1, (1, 10): 1})


@pytest.mark.parametrize(("overwrite", "right"), [(True, True), (False, False)])
def test_a_day_that_is_run_again(overwrite: bool, right: bool) -> None:
    assert (backfilled(EVENTS, 600, 3, 1, overwrite=overwrite) == batch(EVENTS, 600)) is right
