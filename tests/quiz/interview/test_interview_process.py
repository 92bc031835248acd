"""An interview in a process of its own: through pipes, on a terminal, killed, and what the console script says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader import cli
from grader.quiz import store
from grader.submission import BadRequest
from tests.quiz.interview.conftest import write_course

ROOT = Path(__file__).parents[3]
LIMIT = 60  # seconds to wait for what must come; only a test that fails waits so long
CODE = """
import sys
from pathlib import Path
if sys.stdin.isatty():
    import fcntl, termios
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal
sys.path.insert(0, sys.argv[2])
from grader.quiz.interview import session
from tests.quiz.interview.conftest import small_course
folder = Path(sys.argv[1])
request = session.Request("mid", 8, seed=1, out=folder / "reports")
sys.exit(session.run(small_course(folder), request))
"""


Sit = Callable[..., Any]


@pytest.fixture
def sit(tmp_path: Path, learner: Callable[..., Any]) -> Sit:
    write_course(tmp_path)
    return lambda **how: learner(tmp_path, str(ROOT), code=CODE, size=(100, 30), **how)


def interviews() -> list[list[str]]:
    with store.opened() as progress:
        return [[done["rating"] for done in each["done"]] for each in progress.interviews()]


def answer_one(candidate: Any) -> None:
    for prompt, typed in (("> ", "text\n.\n"), ("q quits): ", "a\n"), *[("q quits): ", "\n"), ("q quit: ", "2\n")] * 2):
        candidate.sees(prompt)
        candidate.type(typed)
    candidate.sees("2 of 2")


def test_a_kill_between_questions_loses_no_finished_one(sit: Sit, tmp_path: Path) -> None:
    first = sit(mixed=True)
    answer_one(first)
    first.process.send_signal(signal.SIGKILL)
    assert first.ends() == -signal.SIGKILL
    assert interviews() == []
    second = sit(mixed=True)
    second.sees("The last interview was cut off")
    second.sees("> ")
    second.type("q\n")
    assert second.ends() == 0
    assert interviews() == [["rated"]]
    assert len(list((tmp_path / "reports").iterdir())) == 2


def test_ctrl_c_ends_with_a_report(sit: Sit) -> None:
    candidate = sit(mixed=True)
    answer_one(candidate)
    candidate.sees("> ")
    candidate.type("half an answer\n")
    candidate.sees("> ")
    candidate.interrupts("\x03")
    assert candidate.ends() == 0
    assert interviews() == [["rated", "unrated"]]
    assert "Traceback" not in candidate.shown


def test_on_a_terminal_it_is_full_screen(sit: Sit) -> None:
    candidate = sit(terminal=True)
    candidate.sees("ctrl+s done")  # the keys at the bottom
    assert "\x1b[?1049h" in candidate.shown
    candidate.type("words\x13")  # in one burst with Ctrl-S
    candidate.sees("Third")
    candidate.type("\x1b[B \x1b[B 1\r")  # in one burst: down, tick, down, tick, tick the first, go on
    candidate.sees("Follow-up")
    candidate.type("\x03")
    assert candidate.ends() == 0
    assert interviews() == [["rated"]]
    with store.opened() as progress:
        done = progress.interviews()[0]["done"][0]
    assert done["written"] == "words"
    assert [had for _, had, *_ in done["ticked"]] == [True, True, True, False, False]
    assert "Report: " in candidate.shown
    assert "Traceback" not in candidate.shown


BAD_REQUESTS = {
    "level": (["--level", "junior"], "no level is called 'junior'; choose from mid, senior, principal"),
    "minutes": (["--level", "mid", "--minutes", "0"], "an interview takes 4 to 480 minutes, not 0"),
    "topic": (["--level", "mid", "--topic", "capp"], "no topic is called 'capp'; did you mean 'cap'?"),
    "a topic without a question": (["--level", "mid", "--topic", "pacelc"], "no interview question is about 'pacelc'"),
    "round": (["--level", "mid", "--round", "two-trillion"], "did you mean 'one-trillion'?"),
    "a round that is longer": (["--level", "mid", "--round", "one-trillion", "--minutes", "10"], "takes 40 minutes"),
    "folder": (["--level", "mid", "--out", "/dev/null/x"], "/dev/null/x: no report can be written there"),
}


@pytest.mark.parametrize(("arguments", "said"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_a_bad_request_is_one_sentence(arguments: list[str], said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        cli.app(["interview", *arguments], standalone_mode=False)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_request_ends_with_status_2(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "grader.cli", "interview", "--level", "junior"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=LIMIT, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    said = "rankup: no level is called 'junior'; choose from mid, senior, principal\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_nothing_of_it_is_loaded_by_other_commands() -> None:
    code = "import sys, grader.cli; sys.exit(bool({'textual', 'fsrs', 'markdown_it'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0
