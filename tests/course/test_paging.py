"""Caches of keys and values: how much each kind keeps, and what a cache of prefixes finds and evicts."""

from __future__ import annotations

import pytest

from courselib.paging import PrefixCache, Use, held, routed, turns


def test_pages_waste_less_than_a_block_and_prefixes_are_kept_once() -> None:
    two = [Use(0.0, 10.0, 0, 32, 5, 10), Use(0.0, 10.0, 0, 32, 20, 0), Use(0.0, 10.0, 1, 32, 1, 0)]
    found = held(two, 5.0, longest=100)
    assert (found.used, found.contiguous) == (32 + 5 + 5 + 32 + 20 + 33, 300)
    assert found.paged == 48 + 64 + 48
    assert found.shared == found.paged - 32  # the second request of group 0
    assert held(two, 11.0, longest=100).contiguous == 0


def test_the_oldest_leaf_goes_and_never_the_front() -> None:
    cache = PrefixCache(3)
    assert cache.take(("a", "b", "c")) == 0
    assert cache.take(("a", "x")) == 1
    assert set(cache.used) == {("a",), ("a", "b"), ("a", "x")}  # c was the leaf that nobody used
    assert cache.matched(("a", "b", "c")) == 2
    assert cache.matched(("b", "c")) == 0  # the same block behind another front is another one


def test_hits_grow_with_the_cache_up_to_what_was_there_before() -> None:
    talks = turns(20)
    found = [routed(talks, blocks).hits for blocks in (10, 50, 200, 10_000)]
    assert found == sorted(found)
    new = len({turn.blocks[: n + 1] for turn in talks for n in range(len(turn.blocks))})
    assert found[-1] == pytest.approx(1 - new / sum(len(turn.blocks) for turn in talks))


def test_a_router_by_prefix_alone_sends_all_to_one() -> None:
    talks = turns(20)
    by = {rule: routed(talks, 400, 4, rule) for rule in ("turn", "prefix", "both")}
    assert by["prefix"].busiest == 4
    assert by["both"].busiest < 1.2
    assert by["turn"].hits < by["both"].hits
    with pytest.raises(ValueError, match="no router"):
        routed(talks, 400, 4, "luck")
