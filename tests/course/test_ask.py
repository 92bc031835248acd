"""What chapters have their readers predict: remembered, and asked by the quiz of those who predicted something else."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import decks
import pytest

from courselib import ask
from courselib.widget import FOLDER, widget
from grader import catalog, progress
from grader.quiz import plan, store

DECKS = decks.course()
PREDICTED = {card.id: card for deck in DECKS for card in deck.cards if card.predict}
ASKED = re.compile(r"^predict\([\"']([a-z0-9-]+)[\"']\)", re.MULTILINE)
EXAMPLE = "predict-ring-bytes"


@pytest.fixture(autouse=True)
def _own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path))


@pytest.mark.parametrize(("true", "due"), [(True, []), (False, [EXAMPLE])])
def test_what_did_not_come_true_is_asked_by_the_quiz(true: bool, due: list[str]) -> None:
    made = ask.predict(EXAMPLE)
    made.given, made.true = "32", true
    assert made.kept
    assert progress.predictions() == {"06": (1, int(true))}
    with store.opened() as opened:
        chosen = plan.plan([*PREDICTED.values()], opened.memories(), 100, datetime.now(UTC), soon=opened.soon())
    assert [card.id for card in chosen.new] == due


def test_a_page_has_the_state_and_what_is_shown_without_a_script() -> None:
    html = ask.predict(EXAMPLE)._repr_mimebundle_()[0]["text/html"]
    state = json.loads(re.search(r"<template>(.*)</template>", html, re.DOTALL)[1])  # type: ignore[index]
    assert state["card"]["number"] == {"value": 1536, "unit": "bytes", "tolerance": 0.02}
    assert "<summary>Answer</summary>" in html


def test_there_are_no_others() -> None:
    with pytest.raises(KeyError):
        ask.predict("no-such-card")
    with pytest.raises(FileNotFoundError):
        widget("no_such_widget")


def test_every_prediction_is_asked_once_and_in_its_chapter() -> None:
    asked = Counter()
    for path in sorted(catalog.course().glob("[0-9][0-9]-*.ipynb")):
        for cell in json.loads(path.read_text())["cells"]:
            for name in ASKED.findall("".join(cell["source"])) if cell["cell_type"] == "code" else ():
                asked[name] += 1
                own = {path.name[:2], "06"} if path.name[:2] == "00" else {path.name[:2]}  # 00 has no deck of its own
                assert PREDICTED[name].deck in own, f"{path.name}: {name} is of another deck"
    assert {name for name, times in asked.items() if times > 1} == set()
    assert asked.keys() == PREDICTED.keys()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.js")), ids=lambda path: path.stem)
def test_a_module_can_be_part_of_one_script(path: Path) -> None:
    text = path.read_text()
    assert text.count("export ") == 1
    assert text.endswith("export default { render };\n")
    assert not re.search(r"^import ", text, re.MULTILINE)
