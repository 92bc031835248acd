"""The small store of find_anomaly's playground: what each level shows, and its picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from courselib import witnessed
from grader.exercises.find_anomaly.readings import Reading

MAY_SHOW = {
    "none": {"G0", "G1a", "G1b", "G1c", "G-single", "G2-item"},
    "read committed": {"G-single", "G2-item"},
    "snapshot": {"G2-item"},
    "serializable": set(),
}


@pytest.mark.parametrize("level", witnessed.LEVELS)
def test_each_level_shows_what_it_may(level: str) -> None:
    shown = set[str]()
    for seed in range(20):
        shown |= Reading(witnessed.run(level, seed=seed).history).classes
    assert shown <= MAY_SHOW[level]
    assert shown or level == "serializable"


def test_the_picture_tells_the_witness() -> None:
    played = witnessed.run("snapshot", seed=1)
    cycle = Reading(played.history).cyclic["G2-item"]
    root = ET.fromstring(played.show(("G2-item", cycle)).svg)
    words = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert all(any(text.startswith(f"T{index} (ok): ") for text in words) for index in cycle)
    assert "no anomaly" in played.show(None).svg


def test_another_level_is_refused() -> None:
    with pytest.raises(ValueError, match="choose one of"):
        witnessed.run("linearizable")
