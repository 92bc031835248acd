"""The full screen in a process of its own, on a pseudo-terminal: it starts, asks, ends, and gives the terminal back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from often import often

from grader.quiz import store

CODE = """
import os, sys
from pathlib import Path
if sys.stdin.isatty():
    import fcntl, termios
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal
from grader import catalog, cli
folder = Path(sys.argv.pop(1))
catalog.cards = lambda: folder
cli.main()
"""


def given_back(me: Any) -> bool:
    """Whether the terminal is as it was: its settings, its first screen, its cursor."""
    assert termios.tcgetattr(me.outer) == me.settings
    if "\x1b[?1049h" in me.shown:
        assert me.shown.rindex("\x1b[?1049l") > me.shown.rindex("\x1b[?1049h")
        assert me.shown.rindex("\x1b[?25h") > me.shown.rindex("\x1b[?25l")
    return "Traceback" not in me.shown


def answered() -> list[tuple[str, int]]:
    with store.opened() as progress:
        return [(card, rating) for card, rating, _ in progress.reviews()]


def test_it_starts_asks_and_quits(seven: Path, learner: Any) -> None:
    me = learner(seven, "quiz", terminal=True, code=CODE)
    me.sees("7 cards   0 due")
    me.type("s")
    me.sees("What does a returned")
    me.type(" ")
    me.sees("1 again")
    me.type("3")
    me.sees("2 of 7")
    me.type("q")
    assert me.ends() == 0
    assert given_back(me)
    assert "Answered 1: 1 new" in me.shown.split("\x1b[?1049l")[-1]
    assert answered() == [("plain", 3)]


MOMENTS = {
    "choosing": ([], "7 cards   0 due", 0),
    "a question": (["06"], "What does a returned", 0),
    "an answer": (["06"], "1 again", 1),
}


@pytest.mark.parametrize(
    "how",
    ["\x03", *(pytest.param(each, marks=pytest.mark.heavy) for each in (signal.SIGTERM, signal.SIGINT))],
    ids=["Ctrl-C", "SIGTERM", "SIGINT"],
)
@pytest.mark.parametrize(("words", "seen", "keys"), often(MOMENTS, "an answer"))
def test_it_can_be_ended_at_any_moment(
    seven: Path, learner: Any, words: list[str], seen: str, keys: int, how: Any
) -> None:
    me = learner(seven, "quiz", *words, terminal=True, code=CODE)
    if keys:
        me.sees("What does a returned")
        me.type(" 3 "[: keys * 3])  # answer, rate, answer the next
        me.sees("2 of 7")
    me.sees(seen)
    me.type(how) if isinstance(how, str) else me.process.send_signal(how)
    assert me.ends() == 0
    assert given_back(me)
    assert answered() == [("plain", 3)] * keys


@pytest.mark.parametrize("first", often({"screen": "\x1b[?1049h", "cursor": "\x1b[?25l"}, "screen"))
def test_it_can_be_ended_while_the_screen_is_being_taken(seven: Path, learner: Any, first: str) -> None:
    me = learner(seven, "quiz", "06", terminal=True, code=CODE)
    me.sees(first)
    me.process.send_signal(signal.SIGTERM)
    assert me.ends() in (0, 130), me.shown
    assert given_back(me)


def test_an_editor_has_the_terminal_and_gives_it_back(
    seven: Path, learner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "my-editor"
    script.write_text(
        "#!/bin/sh\necho \"editing $1 of $(basename $2)\"\nsed -i 's/What does a returned/What says a returned/' $2\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(script))
    monkeypatch.delenv("VISUAL", raising=False)
    me = learner(seven, "quiz", "06", terminal=True, code=CODE)
    me.sees("What does a returned")
    me.type("e")
    me.sees("editing +6 of 06.md")
    me.sees("What says a returned")
    me.type("q")
    assert me.ends() == 0
    assert given_back(me)


@pytest.mark.parametrize(("words", "term"), [(["--plain"], "xterm"), ([], "dumb")])
def test_plain_lines_where_no_screen_is_wanted(
    seven: Path, learner: Any, monkeypatch: pytest.MonkeyPatch, words: list[str], term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    me = learner(
        seven,
        "quiz",
        "06",
        *words,
        terminal=True,
        code=CODE.replace("cli.main()", f"os.environ['TERM'] = {term!r}\ncli.main()"),
    )
    me.sees("Enter shows the answer")
    me.type("q\n")
    assert me.ends() == 0
    assert "\x1b[?1049h" not in me.shown


def test_through_pipes_neither_textual_nor_torch_is_loaded(seven: Path) -> None:
    code = CODE.replace("cli.main()", "") + (
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        "sys.exit(bool({'textual', 'torch', 'ray', 'IPython'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(seven), "quiz"], input=b"q\n", capture_output=True, check=False, env=os.environ
    )
    assert done.returncode == 0, done.stderr


BAD = {
    "deck": (["99"], "no deck is called '99'; choose from: 06"),
    "topic": (["--topic", "ring"], "no card is about 'ring'; similar topics: ring-all-reduce"),
    "level": (["--level", "junior"], "no level is called 'junior'; choose from: mid, senior, principal"),
    "kind": (["--kind", "essay"], "no kind is called 'essay'"),
    "import": (["--import", "nowhere.json"], "nowhere.json: cannot be read: No such file or directory"),
    "two things": (["--stats", "--export", "x.json"], "give only one of"),
    "unsuspend": (["--unsuspend", "plain"], "card 'plain' is not suspended; the suspended cards are: none"),
}


@pytest.mark.parametrize(("words", "said"), BAD.values(), ids=BAD.keys())
def test_a_bad_request_is_one_sentence(
    seven: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from grader import catalog, cli

    monkeypatch.setattr(catalog, "cards", lambda: seven)
    monkeypatch.setattr(sys, "argv", ["rankup", "quiz", *words])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
