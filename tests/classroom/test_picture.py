"""How pictures are shown depends on what the terminal answers when it is asked."""

from __future__ import annotations

import sys

import pexpect
import pytest

PROGRAM = """
from rich.console import Console
from grader.classroom.picture import Pictures
from grader.trace import diagram
from grader.trace.events import Trace
pictures = Pictures.on(console := Console())
console.print(pictures.of(diagram.svg(Trace(2), "A run"), 30))
print("end")
"""
ASKED, SIXELS, NONE = "\x1b[c", "\x1b[?62;4;22c", "\x1b[?1;2c"
OF_KITTY = "\x1b_G"


@pytest.mark.parametrize(
    ("answers", "environment", "shown"),
    [
        ([(ASKED, SIXELS)], {}, "\x1bP"),
        ([(ASKED, NONE), (OF_KITTY, "\x1b_Gi=1;OK\x1b\\")], {}, "f=100"),
        ([(ASKED, NONE)], {"TMUX": "1"}, "A run"),
        ([], {"TERM": "dumb"}, "None"),
    ],
)
def test_a_terminal_shows_what_it_can(
    answers: list[tuple[str, str]], environment: dict[str, str], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"TERM": "xterm-256color", "TMUX": "", **environment}.items():
        monkeypatch.setenv(name, value)
        if not value:
            monkeypatch.delenv(name)
    me = pexpect.spawn(sys.executable, ["-c", PROGRAM], dimensions=(40, 100), encoding="utf8", timeout=60)
    for asked, answer in answers:
        me.expect_exact(asked)
        me.send(answer)
    me.expect_exact(shown)
    me.expect_exact("end")
    assert me.wait() == 0
