"""Traces for ui.perfetto.dev: what the Trace Event Format demands."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from runs import RUNS, ring

from grader.trace import perfetto, scene

Event = dict[str, Any]


def written(name: str) -> list[Event]:
    trace, cycle, marks = RUNS[name]()
    whole = json.loads(perfetto.chrome_json(trace, "A title", cycle, marks))
    assert whole["displayTimeUnit"] in ("ms", "ns")
    return list(whole["traceEvents"])


def slices(events: list[Event]) -> dict[int, list[Event]]:
    found: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            found[event["tid"]].append(event)
    return found


@pytest.mark.parametrize("name", RUNS)
def test_every_event_has_what_its_phase_needs(name: str) -> None:
    needed = {
        "M": {"name", "args"},
        "X": {"name", "cat", "ts", "dur", "args"},
        "s": {"name", "cat", "id", "ts"},
        "f": {"name", "cat", "id", "ts", "bp"},
        "i": {"name", "cat", "ts", "s"},
    }
    for event in written(name):
        assert set(event) >= needed[event["ph"]] | {"pid", "tid"}
        assert event["pid"] > 0, "Perfetto takes process 0 for the idle one"
        assert event["tid"] > 0
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 0) >= 0


@pytest.mark.parametrize("name", RUNS)
def test_slices_of_a_thread_follow_each_other(name: str) -> None:
    for found in slices(written(name)).values():
        last = 0.0
        for event in found:  # in the order of the file, which must be that of time
            assert event["ts"] >= last - 1e-9, f"{event['name']} overlaps the slice before it"
            last = event["ts"] + event["dur"]


@pytest.mark.parametrize("name", RUNS)
def test_every_arrow_leaves_a_slice_and_comes_into_one(name: str) -> None:
    events = written(name)
    found = slices(events)
    flows = [event for event in events if event["ph"] in "sf"]
    for event in flows:
        assert any(
            one["ts"] <= event["ts"] and (event["ts"] < one["ts"] + one["dur"] or one["dur"] == 0)
            for one in found[event["tid"]]
        )
    starts = sorted(event["id"] for event in flows if event["ph"] == "s")
    assert starts == sorted(event["id"] for event in flows if event["ph"] == "f") == list(range(len(starts)))


def test_every_rank_has_a_named_thread() -> None:
    events = written("ring of 4")
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names == {f"rank {rank}{what}" for rank in range(4) for what in ("", " sends", " receives")}
    assert [event["args"]["name"] for event in events if event["name"] == "process_name"] == ["A title"]


def test_names_and_times_are_those_of_the_run() -> None:
    events = written("training step")
    first = next(event for event in events if event["name"] == "all_reduce")
    assert (first["ts"], first["dur"], first["cat"]) == (40, 55, "collective")
    assert any(event["name"] == "compute" and event["dur"] == 40 for event in events)


def test_a_round_is_a_millisecond() -> None:
    events = json.loads(perfetto.chrome_json(ring(2, 3), "t"))["traceEvents"]
    assert {event["dur"] for event in events if event.get("cat") == "message" and event["ph"] == "X"} == {1000}


def test_every_message_has_an_arrow() -> None:
    trace = RUNS["ring of 8"]()[0]
    assert sum(event["ph"] == "s" for event in written("ring of 8")) == len(scene.of(trace).arrows) == 8 * 14


def test_faults_are_instants_and_what_lasts_for_ever_says_so() -> None:
    events = written("faults")
    instants = {event["name"] for event in events if event["ph"] == "i"}
    assert {"killed", "slowed", "dropped", "delayed", "partitioned", "connection closed by rank 4"} <= instants
    assert any(event["name"] == "wait: recv (forever)" for event in events)
