"""The lab on recovery in place: survivors stay in their processes, and end with the model of an undisturbed run."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from labs import FOLDER, run_or_skip

STEPS = 12


@cache
def run(kill_at: int) -> list[dict[str, Any]]:
    """What the lab prints; in step 99 nobody is left to be killed."""
    return [
        json.loads(line) for line in run_or_skip(FOLDER / "shrink_in_place.py", str(kill_at), str(STEPS)).splitlines()
    ]


@pytest.mark.heavy
@pytest.mark.parametrize("kill_at", [0, 5])
def test_survivors_keep_their_processes_and_lose_no_step(kill_at: int) -> None:
    for who in (0, 2):
        steps, same = ([e for e in run(at) if (e["who"], e["what"]) == (who, "step")] for at in (kill_at, 99))
        assert [step["step"] for step in steps] == [*range(STEPS)]
        assert len({step["pid"] for step in steps}) == 1
        assert [step["ranks"] for step in steps] == [3 if step < kill_at else 2 for step in range(STEPS)]
        assert [step["loss"] for step in steps] == pytest.approx([step["loss"] for step in same], rel=1e-4)
    held_out = {e["held_out"] for at in (kill_at, 99) for e in run(at) if e["what"] == "end"}
    assert max(held_out) - min(held_out) < 1e-3
    assert max(held_out) < 5  # of log 256 = 5.55: it has learned something
