"""The model is the same in the box and outside, a wrong cache is named, and each death comes where it is meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from grader.authoring import verdicts, wrong
from grader.exercise import Draw, Grading
from grader.exercises.disaggregated_serving import DEATHS, in_box, served
from grader.exercises.disaggregated_serving.caches import near, what
from grader.exercises.disaggregated_serving.given import HEADS, Array, Given, Plan, drawn
from grader.exercises.disaggregated_serving.served import NANOSECONDS, Served
from grader.ranks.engines import Engines
from grader.ranks.program import CallResult
from grader.registry import find
from grader.trace.events import SEND
from grader.worlds.cases import Case

PLAN = Plan(1, 1, (5, 1, 40, 5), 3, 0.0, (0.0,))
GIVEN = drawn(PLAN, Draw(3), "test")
FIRST, OTHER, _, ALIKE = GIVEN.requests


def model(given: Given, prefills: bool) -> Any:
    plan = {"prefills": prefills, "heads": HEADS, "layer": 0.0, "decode": 0.0}
    plan["requests"] = [[key, list(each.prompt)] for key, each in given.requests.items()]
    plan["answers"] = {str(key): [len(each.prompt), len(each.tokens)] for key, each in given.requests.items()}
    return in_box.Model(plan, *(torch.from_numpy(part) for part in (given.embed, given.positions, given.weights)))


def test_the_model_in_the_box_is_that_of_the_grader() -> None:
    prefiller, decoder = model(GIVEN, True), model(GIVEN, False)
    for request, each in GIVEN.requests.items():
        state, caches = list(each.prompt), []
        for layer, right in enumerate(each.caches):
            state, cache = prefiller.prefill_layer(layer, state)
            assert near(cache.double().numpy(), right)
            caches.append(cache)
        assert decoder.decode(request, caches) == list(each.tokens)


def test_what_the_model_is_not_given_it_says() -> None:
    prefiller, decoder = model(GIVEN, True), model(GIVEN, False)
    prompt = list(GIVEN.requests[FIRST].prompt)
    state, cache = prefiller.prefill_layer(0, prompt)
    with pytest.raises(ValueError, match="after layer 1, and this one is after layer 0"):
        prefiller.prefill_layer(2, state)
    with pytest.raises(ValueError, match=r"takes caches of shape \(2, 5, 8\), and layer 0 has \(2, 4, 8\)"):
        decoder.decode(FIRST, [cache[:, :4]] * 3)
    with pytest.raises(RuntimeError, match="works on decoders only"):
        prefiller.decode(FIRST, [cache] * 3)


def zeros_from(position: int) -> Callable[[list[Array]], list[Array]]:
    def change(caches: list[Array]) -> list[Array]:
        return [caches[0], np.where(np.arange(5)[:, None] < position, caches[1], 0), caches[2]]

    return change


CHANGED: dict[str, tuple[Callable[[list[Array]], list[Array]], str]] = {
    "another layer's": (lambda c: [c[0], c[2], c[2]], "got the cache of layer 2 of the same request"),
    "all of one layer": (lambda c: [c[2]] * 3, "All 3 caches hold the same values"),
    "another request's": (
        lambda c: [c[0], GIVEN.requests[ALIKE].caches[1], c[2]],
        f"got the cache of layer 1 of request {ALIKE}",
    ),
    "all of another request": (lambda c: list(GIVEN.requests[ALIKE].caches), f"are those of request {ALIKE}"),
    "a part": (zeros_from(3), "only the first 3 of 5 positions are right. The rest are zeros"),
    "nothing": (zeros_from(0), "Layer 1 is all zeros"),
    "values for keys": (lambda c: [c[0], c[1][::-1], c[2]], "keys and values have changed places"),
    "keys alone": (lambda c: [c[0], np.stack([c[1][0], 0 * c[1][1]]), c[2]], "only the keys are right"),
    "rounded": (lambda c: [c[0], c[1].astype(np.float16).astype(np.float64), c[2]], "right to about 1 % only"),
    "not finite": (lambda c: [c[0], c[1] * np.nan, c[2]], "not finite"),
    "anything": (lambda c: [c[0], c[1] + c[0], c[2]], "none of the caches that prefill_layer() returned"),
}


@pytest.mark.parametrize(("change", "says"), CHANGED.values(), ids=CHANGED.keys())
def test_a_wrong_cache_is_named(change: Callable[[list[Array]], list[Array]], says: str) -> None:
    right = GIVEN.requests[FIRST].caches
    got = change(list(right))
    bad = [i for i, (one, own) in enumerate(zip(got, right, strict=True)) if not near(one, own)]
    assert says in what(GIVEN, FIRST, bad, got)


def at_death(case: Case, result: CallResult, found: Served) -> set[str]:
    """What is so when the decoder of a case dies."""
    plan: Plan = case.expected.plan
    [died] = [span.since for span in result.trace.spans if span.what == "killed"]
    sends = [op for op in result.trace.all_operations() if op.kind == SEND and op.peer == plan.killed]
    lasts = [max(each.until for each in found.prefills if each.rank == rank) for rank in plan.prefilling]
    others = [each for each in found.decodes if each.rank != plan.killed and each.since * NANOSECONDS < died]
    times = Counter(each.request for each in found.prefills)
    kept = [each for each in found.decodes if each.rank != plan.killed and times[each.request] == plan.layers]
    again = {each.rank: each for each in found.prefills if times[each.request] > plan.layers}
    busy = max((last for rank, last in zip(plan.prefilling, lasts, strict=True) if rank not in again), default=0.0)
    so = {
        "sends are pending": any(op.posted <= died and not 0 <= op.started <= died for op in sends),
        "more is sent to it": any(op.posted > died for op in sends),
        "it has all it gets": all(op.posted <= died for op in sends),
        "all else is decoded": len(others) == len(plan.lengths) * (plan.decoders - 1) // plan.decoders
        and all(each.until * NANOSECONDS < died for each in others),
        "others decode their first": all(each.until * NANOSECONDS > died for each in others),
        "it had decoded some": any(
            each.rank == plan.killed and 0 <= each.until * NANOSECONDS < died for each in found.decodes
        ),
        "one hears late": max(lasts) > 2 * min(lasts),
        "the lost is decoded before one hears": any(
            times[each.request] > plan.layers and each.until < busy
            for each in found.decodes
            if each.rank != plan.killed
        ),
        "the others differ in number": len(set(Counter(each.rank for each in kept).values())) > 1,
        "each prefiller has a part": {each.rank for each in found.prefills if times[each.request] > plan.layers}
        == set(plan.prefilling),
    }
    return {each for each, holds in so.items() if holds}


MEANT = {
    "death 1": {"more is sent to it"},
    "death 2": {"all else is decoded", "it has all it gets"},
    "death 3": {"it has all it gets"},
    "death 4": {"sends are pending", "others decode their first"},
    "death 5": {"it has all it gets"},
    "death 6": {"it has all it gets", "others decode their first"},
    "death 7": {"it has all it gets", "others decode their first", "each prefiller has a part"},
    "death 8": {"one hears late"},
    "death 9": {"it had decoded some", "all else is decoded", "each prefiller has a part"},
    "death 10": {
        "it has all it gets",
        "others decode their first",
        "the others differ in number",
        "the lost is decoded before one hears",
    },
}


@pytest.mark.heavy
def test_decoders_die_where_they_are_meant_to(engines: Engines) -> None:
    assert MEANT.keys() == set(DEATHS)
    submission = verdicts.handed_in("disaggregated_serving", wrong.REFERENCE)
    bench = find("disaggregated_serving").world.open(Grading(submission, engines, 1, alone=True))
    try:
        for group, meant in MEANT.items():
            for case, result, found in served(bench, group):
                assert meant <= at_death(case, result, found), group
    finally:
        bench.close()
