"""What a keeper is asked about ranks, it answers of the ranks, however late it hears who they are."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import Any

from grader.sandbox import packets
from grader.sandbox.keeper import _Keeper


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
