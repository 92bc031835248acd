"""Chapter 00: what it tells a learner to do works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import chapters
import pytest
from chapters import CHAPTERS

from grader import check, cli, cli_quiz, play

START = CHAPTERS[0]
CODE = {
    found[1]: cell.source
    for cell in chapters.notebook(START).cells
    if cell.cell_type == "code" and (found := re.search(r"^def (\w+)", cell.source, re.M))
}
REMEDIES = re.findall(r"<summary>.*?```python\n(.*?)```", chapters.markdown(START), re.DOTALL)


def defined(name: str, source: str, tmp_path: Path) -> Any:
    path = tmp_path / f"{name}_{len(list(tmp_path.iterdir()))}.py"  # a name of its own: sources are cached by name
    path.write_text(source)
    space: dict[str, Any] = {}
    exec(compile(source, str(path), "exec"), space)
    return space[name]


def test_the_deadlock_is_one_and_its_remedy_mends_it(tmp_path: Path) -> None:
    import torch

    source, remedy = CODE["pass_to_the_right"], REMEDIES[0].rstrip("\n")
    stuck = "    dist.send(mine, (rank + 1) % n)\n    dist.recv(got, (rank - 1) % n)"
    assert stuck in source
    endings = []
    for text in (source, source.replace(stuck, remedy)):
        run = play(defined("pass_to_the_right", text, tmp_path), 4, lambda rank: torch.tensor([float(rank)]))
        endings.append((run.ending, run.returned))
    assert endings == [("deadlocked", None), ("finished", [[3.0], [0.0], [1.0], [2.0]])]


def test_the_first_exercise_loses_its_points_and_the_right_line_brings_them(tmp_path: Path) -> None:
    source, remedy = CODE["send_time"], REMEDIES[1]
    wrong = re.search(r"^    return .*\n?", source, re.M)
    assert wrong is not None
    first = check(defined("send_time", source, tmp_path), "send")
    assert first == 0
    assert "beta is seconds per byte" in first.text
    assert check(defined("send_time", source.replace(wrong[0], remedy), tmp_path), "send") > 0


def test_the_ring_of_the_tutorial_loses_points_for_bytes_alone(tmp_path: Path) -> None:
    score = check(defined("ring_all_reduce", CODE["ring_all_reduce"], tmp_path))
    lost = {each["name"]: each["diagnosis"] for each in score._checks if each["diagnosis"]}
    assert [each["kind"] for each in lost.values()] == ["too_many_bytes"], lost


@pytest.mark.parametrize("word", sorted(set(re.findall(r"`?rankup ([a-z]+)", chapters.markdown(START)))))
def test_a_command_that_it_names_exists(word: str) -> None:
    apps = (cli.app, cli_quiz.app)
    known = {
        made.name or made.callback.__name__.rstrip("_")
        for app in apps
        for made in app.registered_commands
        if made.callback
    }
    assert word in known | {group.name for app in apps for group in app.registered_groups}
