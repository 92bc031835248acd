"""Prefill and decode on ranks of their own: caches in parts, and a decoder that dies."""

from __future__ import annotations

import pytest

from grader.ranks import faults
from grader.ranks.engines import Engines
from grader.ranks.network import Network
from grader.ranks.program import Program, Run, same_for_all

PROGRAM = Program.of(
    "from courselib import handover\n\ndef run(name, given):\n    return getattr(handover, name)(given)\n",
    "cell",
    "run",
)


def run(engines: Engines, name: str, ranks: int, given: int, kill: str = "") -> Run:
    killed = [faults.parse(kill, ranks)] if kill else []
    calls = [same_for_all(ranks, name, given)]
    return engines.run("sim", PROGRAM, ranks, calls, 1, network=Network(0.0, 2e-6), faults=killed)


def test_in_parts_the_decoder_begins_behind_the_last_part(engines: Engines) -> None:
    first = [run(engines, "separate", 2, parts).calls[0].returned[1][0][0] for parts in (1, 4)]
    assert first == pytest.approx([0.072, 0.048])


@pytest.mark.parametrize("at", ["5", "35", "75", "95", "118"])
def test_a_dead_decoders_requests_are_prefilled_again_and_decoded_once_by_the_living(engines: Engines, at: str) -> None:
    done = run(engines, "answered", 3, 8, f"kill:2@t={at}ms")
    assert done.ending == "finished", done.diagnoses
    prefills, decodes, dead = done.calls[0].returned
    assert dead is None
    assert sorted(int(label) for _, _, label, _ in decodes) == list(range(8))
    again = [label for _, _, label, _ in prefills][8:]
    assert set(again) <= {"1", "3", "5", "7"}
    assert again


def test_without_a_death_each_is_prefilled_once(engines: Engines) -> None:
    prefills, *decodes = run(engines, "answered", 3, 8).calls[0].returned
    assert [label for _, _, label, _ in prefills] == list("01234567")
    assert [len(boxes) for boxes in decodes] == [4, 4]
