"""What a learner has who has the wheel alone: everything, from an empty folder, with its dependencies and no others."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import urllib.request
import uuid
import venv
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
import watchfiles
import websocket
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
EXERCISE, CHAPTER = "ring_all_reduce", "12-agreement"  # the chapter's cells take seconds
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/\S*\?token=(\w+)")

pytestmark = pytest.mark.heavy


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and the empty folder in which its commands are given."""

    prefix: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Of a user of this machine who has nothing of ours."""
        ours, home = ("RANKUP", "PYTHON", "JUPYTER"), str(self.folder.parent / "home")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return {**kept, "HOME": home, "XDG_RUNTIME_DIR": home, "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}"}

    def rankup(self, *arguments: str, typed: str = "") -> tuple[int, str]:
        """A command's exit status, and what it says on both its streams."""
        done = subprocess.run(
            [self.prefix / "bin" / "rankup", *arguments], cwd=self.folder, env=self.environment, input=typed, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
        )  # fmt: skip
        return done.returncode, done.stdout


def needed(wanted: Sequence[str]) -> set[str]:
    """Every distribution that pip would install for these requirements; all must be here."""
    found: set[tuple[str, str]] = set()
    todo = [("", list(wanted))]
    while todo:
        extra, requirements = todo.pop()
        for each in map(Requirement, requirements):
            if each.marker is None or each.marker.evaluate({"extra": extra}):
                new = {(canonicalize_name(each.name), more) for more in ("", *each.extras)} - found
                todo += [(more, importlib.metadata.requires(name) or []) for name, more in new]
                found |= new
    return {name for name, _ in found}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The wheel in a fresh environment. Its dependencies are links to what is here: they are 2 GB."""
    base = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", base], cwd=ROOT, check=True,
                   stdout=subprocess.PIPE)  # fmt: skip
    (wheel,) = base.glob("*.whl")
    (about,) = (each for each in zipfile.Path(wheel).iterdir() if each.name.endswith(".dist-info"))
    requires = importlib.metadata.PathDistribution(about).requires or []
    prefix, folder = base / "venv", base / "empty"
    venv.create(prefix, symlinks=True)
    for each in (folder, base / "home"):
        each.mkdir(mode=0o700)
    ours = Path(sysconfig.get_path("purelib"))
    theirs = prefix / ours.relative_to(sys.prefix)
    for name in needed(requires):
        for file in importlib.metadata.distribution(name).files or []:
            source, target = ours / file, theirs / file
            if source.is_file() and file.parts[-2:-1] + file.parts[:1] != ("bin", ".."):  # they name another Python
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(source, target)
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", prefix, "install", "--no-index", wheel], check=True,
        stdout=subprocess.PIPE, env={**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )  # fmt: skip
    yield Installed(prefix, folder)
    for socket in base.glob("home/rankup/*.sock"):
        socket.unlink()  # the warm service looks for its own, and ends
    _, left = psutil.wait_procs([each for each in psutil.process_iter() if _is_of(each, prefix)], timeout=30)
    assert left == []


@dataclass(frozen=True)
class _Lab:
    """A running JupyterLab: asks it for pages, and tells it what to begin."""

    port: str
    token: str

    def url(self, path: str, scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.port}/{path}?token={self.token}"

    def ask(self, path: str, body: dict[str, str] | None = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(self.url(path), data, timeout=60) as answer:
            return bytes(answer.read())


@contextmanager
def _lab(installed: Installed, chapter: str) -> Iterator[_Lab]:
    """`rankup lab CHAPTER` until it says where it is, and then until it has ended."""
    log = installed.folder.parent / "lab.log"
    with log.open("w") as written:
        process = subprocess.Popen(
            [installed.prefix / "bin" / "rankup", "lab", chapter, "--no-browser", "--ServerApp.port=0"],
            cwd=installed.folder, env=installed.environment, stdout=written, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        for _ in watchfiles.watch(log, yield_on_timeout=True, rust_timeout=1000):
            if (found := ADDRESS.search(log.read_text())) or process.poll() is not None:
                break
        assert found, log.read_text()
        yield _Lab(found[1], found[2])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _run(channel: websocket.WebSocket, source: str) -> set[str]:
    """Run a cell by a kernel's channel. Returns the kinds of what it shows; an error fails."""
    asked = uuid.uuid4().hex
    header = {"msg_id": asked, "msg_type": "execute_request", "session": "test", "username": "", "version": "5.3"}
    content = {"code": source, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
    channel.send(json.dumps(message))
    shown: set[str] = set()
    while True:
        told: dict[str, Any] = json.loads(channel.recv())
        if told["parent_header"].get("msg_id") != asked:
            continue
        assert told["msg_type"] != "error", told["content"]
        shown |= told["content"].get("data", {}).keys()
        if told["msg_type"] == "status" and told["content"]["execution_state"] == "idle":
            return shown


def _is_of(process: psutil.Process, prefix: Path) -> bool:
    try:
        return any(str(prefix) in word for word in process.cmdline())
    except psutil.Error:
        return False


def test_a_copy_is_started_solved_and_graded(installed: Installed) -> None:
    status, said = installed.rankup("start", EXERCISE)
    copy = installed.folder / "work" / "06-collectives" / f"{EXERCISE}.ipynb"
    assert (status, copy.exists()) == (0, True), said
    status, said = installed.rankup("grade", EXERCISE)
    assert (status, "not written yet" in said) == (1, True), said
    status, said = installed.rankup("solution", EXERCISE, "--give-up")
    assert (status, "reduce" in said) == (0, True), said
    copy.write_bytes((ROOT / "solutions" / "06-collectives" / copy.name).read_bytes())
    for _ in range(2):  # the second time by the warm service
        status, said = installed.rankup("grade", EXERCISE)
        assert (status, "20 of 20 points" in said) == (0, True), said


@pytest.mark.parametrize(
    ("arguments", "typed", "told"),
    [
        (["list"], "", "serve_checkpoint"),
        (["hint", "raft"], "", "Hint 1 of"),
        (["quiz", "06", "--plain"], "\n3\nq\n", "1 of"),
        (["interview", "--level", "senior", "--plain"], "q\n", "Mock interview, senior"),
        (["cards", "check"], "", "no problems"),
        (["cards", "export", "--anki", "all.apkg"], "", "decks\n"),
        (["exercise", "wrong", "--help"], "", "Usage"),
        (["doctor"], "", "64 ranks summed a tensor"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_finds_what_it_needs(installed: Installed, arguments: list[str], typed: str, told: str) -> None:
    status, said = installed.rankup(*arguments, typed=typed)
    assert (status, told in said) == (0, True), said


def test_pictures_of_cards_are_there(installed: Installed) -> None:
    (cards,) = installed.prefix.glob("lib/python*/site-packages/grader/_data/course/cards")
    named = {
        name for deck in cards.glob("*.md") for name in re.findall(r"^picture: pictures/(.+)$", deck.read_text(), re.M)
    }
    assert named
    assert named <= {path.name for path in (cards / "pictures").iterdir()}


def test_jupyterlab_starts_and_runs_a_chapter(installed: Installed) -> None:
    with _lab(installed, CHAPTER[:2]) as lab:
        assert b"jupyter-config-data" in lab.ask(f"lab/tree/course/{CHAPTER}.ipynb")
        notebook = nbformat.reads(json.dumps(json.loads(lab.ask(f"api/contents/course/{CHAPTER}.ipynb"))["content"]), 4)
        kernel = json.loads(lab.ask("api/kernels", {"name": "python3", "path": "course"}))["id"]
        channel = websocket.create_connection(lab.url(f"api/kernels/{kernel}/channels", "ws"), timeout=120)
        shown: set[str] = set()
        for cell in notebook.cells:
            if cell.cell_type == "code":
                shown |= _run(channel, cell.source)
        channel.close()
    assert "text/html" in shown or "image/svg+xml" in shown, "the chapter draws"
