"""The lab on PostgreSQL's isolation levels: who is refused at which, and that the checker agrees."""

from __future__ import annotations

import json
import signal

import labs
import pytest

from courselib import transacted

pytestmark = pytest.mark.heavy
LAB = labs.FOLDER / "postgres_isolation.py"
BOTH, SECOND = "committed, committed", "committed, refused (40001)"


def test_the_levels_allow_what_the_chapter_says() -> None:
    told = json.loads(labs.run_or_skip(LAB, "--json"))
    levels = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
    assert [told["figures"][f"doctors {level}"] for level in levels] == [BOTH, BOTH, SECOND]
    assert [told["figures"][f"deposits {level}"] for level in levels] == [BOTH, SECOND, SECOND]
    judged = {name: transacted.verdict(transacted.of_dicts(json.loads(told["figures"][f"{name}: history"])))
              for name in ("doctors REPEATABLE READ", "doctors SERIALIZABLE", "deposits READ COMMITTED")}  # fmt: skip
    assert judged["doctors REPEATABLE READ"] == "G2-item"
    assert judged["doctors SERIALIZABLE"] == "valid"
    assert "lost-update" in judged["deposits READ COMMITTED"]
    changes = [line for _, line in told["rows"]]
    assert changes.count("BEGIN") == changes.count("COMMIT") == 1


@pytest.mark.parametrize("number", labs.BY_TERMINATION, ids=lambda number: number.name)
def test_no_server_outlives_the_lab(number: signal.Signals) -> None:
    labs.kill_once_started(LAB, number, "postgres")
