"""What a keeper is asked about ranks, it answers of the ranks, however late it hears who they are."""

from __future__ import annotations

import json
import os
import threading
from types import SimpleNamespace
from typing import Any

from grader.sandbox import packets
from grader.sandbox.keeper import _Keeper
from grader.sandbox.limits import BoxLimits


def test_traffic_is_not_told_before_it_is_known_who_the_ranks_are() -> None:
    boss, ours = packets.pair()
    first, box = packets.pair()
    wanted: Any = SimpleNamespace(full=False, limits=SimpleNamespace(memory_bytes=1))
    folder = os.open("/proc", os.O_RDONLY)
    try:
        keeper = _Keeper(ours, box, wanted, [])
        first.put(json.dumps({"pids": [7, 8]}).encode(), [folder])
        boss.put(b"traffic")
        assert keeper._boss_says(), "it is asked before it has read what the box says"
        assert keeper.pids == [7, 8]
        os.close(keeper.folder)
    finally:
        os.close(folder)
        for each in (boss, ours, first, box):
            each.close()


def test_a_keeper_that_finds_the_question_and_the_ranks_at_once_goes_on() -> None:
    """It answers by what it reads out of turn; to read it a second time would block for good."""
    boss, ours = packets.pair()
    first, box = packets.pair()
    wanted: Any = SimpleNamespace(full=False, limits=BoxLimits())
    with open(os.devnull) as folder:
        boss.put(b"traffic")
        first.put(json.dumps({"pids": [7]}).encode(), [folder.fileno()])
        keeper = _Keeper(ours, box, wanted, [])
        keeper._processes = list  # type: ignore[method-assign]
        watching = threading.Thread(target=keeper.watch, daemon=True)
        watching.start()
        boss.settimeout(10)
        assert [json.loads(boss.take()) for _ in range(2)] == [{"up": True}, {"carried": None}]
        boss.put(b"kill")
        watching.join(10)
        assert not watching.is_alive()
        os.close(keeper.folder)
    for each in (boss, ours, first, box):
        each.close()
