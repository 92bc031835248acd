"""Which modes may be used, and that a class's boxes are shut or not made."""

from __future__ import annotations

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
