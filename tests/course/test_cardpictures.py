"""The pictures on cards are those of a new run, and there is one for each card that asks for one."""

from __future__ import annotations

from collections.abc import Callable

import decks
import pytest

from grader.quiz import pictures as files
from grader.ranks.engines import Engines
from tools.cardpictures import FOLDER, pictures

NAMES = sorted(path.stem for path in FOLDER.glob("*.svg"))


@pytest.fixture(scope="module")
def drawings(engines: Engines) -> dict[str, Callable[[], str]]:
    return pictures(engines)


@pytest.mark.parametrize("name", NAMES)
def test_a_committed_picture_is_that_of_a_new_run(drawings: dict[str, Callable[[], str]], name: str) -> None:
    assert (FOLDER / f"{name}.svg").read_text() == drawings[name](), "python -m tools.cardpictures draws it anew"


def test_every_picture_is_committed_and_on_a_card(drawings: dict[str, Callable[[], str]]) -> None:
    shown = {card.picture for card in decks.cards() if card.picture}
    assert shown == {f"pictures/{name}.svg" for name in NAMES}
    assert set(drawings) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_can_be_read_on_a_dark_page(name: str) -> None:
    assert files.fault(FOLDER / f"{name}.svg") is None
    text = (FOLDER / f"{name}.svg").read_text()
    assert "#ffffff" in text[:1200] or 'fill="#fff"' in text[:1200] or "background:#fff" in text[:1200]
