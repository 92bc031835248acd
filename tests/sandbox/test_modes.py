"""Which modes may be used, and that a class's boxes are shut or not made."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.ranks import WORKER
from grader.sandbox import bwrap, modes
from grader.sandbox.warm import BoxFailed, Warm


@pytest.mark.parametrize(
    ("most", "least", "wanted"),
    [
        ("", "", ("full", "none")),
        ("full", "", ("full", "none")),
        ("none", "", ("none",)),
        ("", "full", ("full",)),
        ("none", "full", ("none",)),
        ("nonsense", "nonsense", ("full", "none")),
    ],
)
def test_the_modes_between_what_is_asked_for_at_most_and_at_least(
    monkeypatch: pytest.MonkeyPatch, most: str, least: str, wanted: tuple[str, ...]
) -> None:
    monkeypatch.setenv(modes.MOST, most)
    monkeypatch.setenv(modes.LEAST, least)
    assert modes.wanted() == wanted


def test_where_full_isolation_is_required_no_other_box_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(modes.MOST, raising=False)
    monkeypatch.setenv(modes.LEAST, "full")
    monkeypatch.setattr(bwrap, "program", lambda: None)
    modes.why_not.cache_clear()
    with pytest.raises(BoxFailed, match="bubblewrap is not installed"):
        Warm(WORKER)
    modes.why_not.cache_clear()


def test_where_bubblewrap_is_refused_boxes_are_made_without_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a container with its defaults: bubblewrap ends by itself, before anything of ours runs."""
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    for name in (modes.MOST, modes.LEAST):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(bwrap, "program", lambda: str(program))
    modes.why_not.cache_clear()
    with Warm("json") as warm:
        warm.wait_until_ready()
        assert warm.mode == "none"
    assert "No permissions" in modes.why_not("full")
    modes.why_not.cache_clear()
