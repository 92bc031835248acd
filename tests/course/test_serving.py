"""A language model's server in virtual time, and what it computes with."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from courselib import inference, serving
from courselib.serving import EMPTY, READS, WRITES, Request, Rule, serve, trace

SECONDS = partial(inference.seconds, inference.LLAMA_70B, inference.H100_NODE)


def flat(tokens: int, cached: float) -> float:
    return 0.01


def by_tokens(tokens: int, cached: float) -> float:
    return 0.001 * tokens


def test_a_request_alone_reads_its_prompt_and_then_writes() -> None:
    run = serve([Request(1.0, 5, 3)], Rule("any"), by_tokens)
    assert run.times[0] == pytest.approx([1.005, 1.006, 1.007])
    assert (run.ttft(1), run.tpot(1)) == pytest.approx((0.005, 0.001))
    assert [(number, what) for _, _, _, number, what in run.boxes] == [(0, READS), (0, WRITES)]


def test_chunks_end_where_the_budget_does() -> None:
    run = serve([Request(0.0, 1, 50), Request(0.0045, 10, 1)], Rule("chunks", budget=4), by_tokens)
    assert run.gap(1) == pytest.approx(0.004)
    whole = serve([Request(0.0, 1, 50), Request(0.0045, 10, 1)], Rule("whole"), by_tokens)
    assert whole.gap(1) == pytest.approx(0.011)
    assert whole.times[1][0] < run.times[1][0]


def test_a_static_batch_ends_as_a_whole() -> None:
    requests = [Request(0.0, 2, 2), Request(0.0, 2, 9), Request(0.005, 2, 1)]
    static, continuous = (serve(requests, Rule("", slots=2, static=each), flat) for each in (True, False))
    assert [times[-1] for times in static.times] == pytest.approx([0.02, 0.09, 0.10])
    assert [times[-1] for times in continuous.times] == pytest.approx([0.02, 0.09, 0.03])
    assert EMPTY in {what for *_, what in static.boxes}
    assert static.occupancy == pytest.approx((11 + 1) / (18 + 1))
    assert continuous.occupancy == 1


def test_the_youngest_is_preempted_and_loses_no_token() -> None:
    requests = [Request(0.0, 4, 8), Request(0.001, 4, 8)]
    run = serve(requests, Rule("", room=15), flat)
    assert run.preempted == 1
    assert [len(times) for times in run.times] == [8, 8]
    assert run.times[0] == pytest.approx([0.01 * n for n in range(1, 9)])
    reserved = serve(requests, Rule("", room=15, reserve=True, limit=8), flat)
    assert reserved.preempted == 0
    assert reserved.times[1][0] > run.times[1][0]
    with pytest.raises(ValueError, match="does not fit"):
        serve(requests, Rule("", room=10), flat)


def test_the_fair_rule_takes_the_tenant_that_had_least() -> None:
    flood = [Request(0.0, 10, 5, "greedy") for _ in range(20)] + [Request(0.011, 1, 1, "polite")]
    waits = {fair: serve(flood, Rule("", slots=2, fair=fair), flat).ttft(1, "polite") for fair in (False, True)}
    assert waits[True] < 0.06 < 0.4 < waits[False]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 9), st.integers(1, 8), st.booleans(), st.sampled_from([0, 8, 64]), st.sampled_from([600, math.inf])
)
def test_every_request_gets_all_its_tokens(seed: int, slots: int, static: bool, budget: int, room: float) -> None:
    requests = trace(50, 20, prompt=20, answer=10, seed=seed)
    biggest = max(each.prompt + each.answer for each in requests)
    run = serve(requests, Rule("", slots=slots, static=static, budget=budget, room=max(room, biggest)), by_tokens)
    for each, times in zip(run.requests, run.times, strict=True):
        assert len(times) == each.answer
        assert times == sorted(times)
        assert times[0] > each.came
    assert all(n <= slots for _, n, _ in run.running)
    assert run.occupancy <= 1 + 1e-9


def test_prefill_apart_disturbs_nobody_and_a_slow_link_delays_the_second_token() -> None:
    requests = trace(10, 40, seed=2)
    together = serving.spread(requests, 2, Rule("", budget=512), SECONDS)
    fast, slow = (serving.apart(requests, Rule(""), SECONDS, transfer) for transfer in (1e-9, 1e-3))
    assert fast.gap(0.99) < together.gap(0.99)
    assert [len(times) for times in slow.times] == [each.answer for each in slow.requests]
    assert slow.ttft(1) == pytest.approx(fast.ttft(1))
    assert slow.tpot(0.5) > 5 * fast.tpot(0.5)


def test_the_numbers_of_the_course() -> None:
    llama, node = inference.LLAMA_70B, inference.H100_NODE
    assert llama.a_token == 327_680
    assert int(node.room(llama) // 8192) == 162
    assert SECONDS(1, 0) == pytest.approx(140e9 / 26.8e12)
    assert SECONDS(512, 0) == pytest.approx(0.01493, rel=1e-3)
    full = inference.point(llama, node, 162, 8192)
    assert full.fits
    assert not inference.point(llama, node, 163, 8192).fits
    assert (full.tpot, full.rate) == pytest.approx((0.02145, 7552), rel=1e-3)
    best = inference.largest(llama, node, 8192, 0.02)
    tpots = [inference.point(llama, node, batch, 8192).tpot for batch in (best, best + 1)]
    assert tpots[0] <= 0.02 < tpots[1]
    assert inference.largest(inference.LLAMA_405B, node, 8192, 1.0) == 0
    assert {each.kind: each.numbers for each in inference.attentions(64, 8, 128)} == {
        "MHA": 16384, "GQA": 2048, "MQA": 256, "MLA": 576}  # fmt: skip


def test_intensities_are_those_of_the_text() -> None:
    model = replace(inference.LLAMA_70B, layers=0)  # without caches and attention
    assert inference.prefill(model, 100).intensity == pytest.approx(100)
    assert inference.decode(model, 7, 4096).intensity == pytest.approx(7)
    assert inference.H100_NODE.ridge == pytest.approx(295, abs=1)
    assert inference.NVL72.ridge == pytest.approx(312.5)
