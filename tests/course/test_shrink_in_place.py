"""The lab on recovery in place: survivors stay in their processes, and end with the weight of an undisturbed run."""

from __future__ import annotations

import json

import pytest
from labs import FOLDER, run_or_skip


@pytest.mark.heavy
@pytest.mark.parametrize("kill_at", [0, 3, 9])
def test_survivors_keep_their_processes_and_lose_no_step(kill_at: int) -> None:
    events = [json.loads(line) for line in run_or_skip(FOLDER / "shrink_in_place.py", str(kill_at), "6").splitlines()]
    for who in (0, 2):
        steps = [event for event in events if (event["who"], event["what"]) == (who, "step")]
        assert [step["step"] for step in steps] == [*range(6)]
        assert len({step["pid"] for step in steps}) == 1
        assert [step["ranks"] for step in steps] == [3 if step < kill_at else 2 for step in range(6)]
        assert steps[-1]["weight"] == pytest.approx(-8.25)
