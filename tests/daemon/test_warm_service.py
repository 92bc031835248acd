"""The warm service: what it does is what a command does by itself, and nothing is left where one of them is killed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from often import often
from processes import computing

from grader.authoring import verdicts
from grader.daemon import place

RANKUP = [sys.executable, "-m", "grader.daemon.client"]
NAME = "ring_all_reduce"
FOREVER = "def ring_all_reduce(t):\n    print('begun', flush=True)\n    while True:\n        pass\n"


class Learner:
    """Who gives commands in a folder, with a folder for sockets of their own."""

    def __init__(self, folder: Path, sockets: str) -> None:
        self.folder, self.sockets = folder, sockets
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": sockets, "RANKUP_DATA": str(folder / "data")}
        for name in ("RANKUP_NO_SERVICE", "PYTHONPATH"):  # either does without
            self.environment.pop(name, None)

    def command(self, *words: str, start: Sequence[str] = RANKUP, **changed: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*start, *words], cwd=self.folder, env=self.environment | changed, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def done(self, *words: str, **changed: str) -> tuple[int, str, str]:
        with self.command(*words, **changed) as process:
            out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def verdict(self, *words: str) -> dict[str, object]:
        _, out, err = self.done("grade", NAME, "mine.py", "--seed", "3", "--json", *words)
        assert out, err
        said = {**json.loads(out)}
        said.pop("seconds")
        return said

    def services(self) -> list[psutil.Process]:
        """Without their forks, which look like them."""
        found = {
            process.pid: process
            for process in psutil.process_iter(["cmdline", "ppid"])
            if any(word.startswith(f"{self.sockets}/") for word in process.info["cmdline"] or ())
        }
        return [process for process in found.values() if process.info["ppid"] not in found]

    def service(self) -> psutil.Process:
        (found,) = self.services()
        return found

    def forks(self) -> list[psutil.Process]:
        """Those that do commands, not the host. Numbers of processes begin again, so their order tells nothing."""
        service = self.service()
        return [each for each in service.children() if each.cmdline() == service.cmdline()]


@pytest.fixture(scope="module")
def sockets() -> Iterator[str]:
    """A short path: names of sockets have at most 107 bytes."""
    folder = tempfile.mkdtemp(prefix="rk-", dir="/tmp")
    yield folder
    for process in Learner(Path(folder), folder).services():
        process.kill()
    shutil.rmtree(folder)


@pytest.fixture
def learner(tmp_path: Path, sockets: str) -> Learner:
    (tmp_path / "mine.py").write_text(verdicts.handed_in(NAME, "reference").source)
    (tmp_path / "forever.py").write_text(FOREVER)
    return Learner(tmp_path, sockets)


def gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=15)[1]


@pytest.mark.heavy
def test_a_verdict_is_the_same_with_the_service_and_without(learner: Learner) -> None:
    first = learner.verdict()
    service = learner.service()
    assert learner.verdict() == first == learner.verdict("--no-service")
    assert learner.service() == service
    assert first["points"] == first["max_points"]


def test_a_command_has_the_folder_environment_and_status_of_whoever_gives_it(learner: Learner) -> None:
    (learner.folder / "wrong.py").write_text("def ring_all_reduce(t):\n    pass\n")
    elsewhere = learner.folder / "elsewhere"
    status, out, _ = learner.done("grade", NAME, "wrong.py", RANKUP_DATA=str(elsewhere), COLUMNS="100")
    assert status == 1
    assert "0/" in out.replace(" ", "")
    assert elsewhere.is_dir()
    assert learner.done("grade", NAME, "none.py") == learner.done("grade", NAME, "none.py", "--no-service")
    assert learner.done("grade", "no_such_exercise")[0] == 2


def test_check_in_a_notebook_asks_it(learner: Learner) -> None:
    asked = f"_service().grade({NAME!r}, [open('mine.py').read()], 1, True)"
    code = f"from grader.classroom.check import _service\nprint({asked}.passed)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=learner.folder, env=learner.environment, capture_output=True, text=True
    )
    assert done.stdout == "True\n", done.stderr


def begun(learner: Learner) -> tuple[subprocess.Popen[str], psutil.Process]:
    """A command that never ends by itself, once its ranks compute, and the service that does it."""
    process = learner.command("grade", NAME, "forever.py", "--seed", "1")
    while process.poll() is None:
        for service in learner.services():
            if computing(service.pid):
                return process, service
    raise AssertionError(process.communicate())


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_what_a_command_does_ends_with_it(learner: Learner, number: signal.Signals, status: int) -> None:
    with begun(learner)[0] as process:
        service = learner.service()
        forks = learner.forks()
        process.send_signal(number)
        assert process.wait(timeout=15) == status
    assert gone(forks)
    assert not computing(service.pid)
    assert learner.service() == service
    assert learner.done("grade", NAME, "mine.py")[0] == 0


@pytest.mark.heavy
def test_a_service_that_is_killed_is_said_in_one_sentence_and_the_next_command_works(learner: Learner) -> None:
    process, service = begun(learner)
    below = service.children(recursive=True)
    service.kill()
    _, err = process.communicate(timeout=15)
    assert (process.returncode, err) == (
        2,
        "rankup: the warm service was ended while it did this. Give the command again.\n",
    )
    assert gone(below)
    assert learner.done("grade", NAME, "mine.py")[0] == 0


@pytest.mark.heavy
def test_one_that_does_not_answer_is_replaced(learner: Learner) -> None:
    learner.verdict()
    service = learner.service()
    service.suspend()
    code = "from grader.daemon import client\nclient.HANG_SECONDS = 0.5\nclient.main()"
    with learner.command("grade", NAME, "mine.py", "--seed", "3", start=[sys.executable, "-c", code]) as process:
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (
        0,
        "rankup: the warm service does not answer. This is done without it.\n",
    )
    assert learner.done("grade", NAME, "mine.py")[0] == 0
    service.resume()
    assert gone([service])
    assert learner.service() != service


def test_what_a_command_does_stops_and_goes_on_with_it(learner: Learner) -> None:
    with begun(learner)[0] as process:
        (fork,) = learner.forks()
        both = psutil.Process(process.pid), fork  # the fork stops first: only when both have is it time to go on
        try:
            for number, stopped in ((signal.SIGTSTP, True), (signal.SIGCONT, False), (signal.SIGTSTP, True)):
                process.send_signal(number)
                until = time.monotonic() + 60
                while any((each.status() == psutil.STATUS_STOPPED) != stopped for each in both):
                    assert time.monotonic() < until, f"{number.name}: {[each.status() for each in both]}"
        finally:
            process.kill()  # as a shell that is closed ends its stopped jobs
    assert gone([fork])


CLOSED = {"<&-": 0, ">&-": 0, "2>&-": 0, "| true": 1}


@pytest.mark.parametrize("closed", often(list(CLOSED), "| true"))
def test_a_stream_that_is_closed_is_no_matter(learner: Learner, closed: str) -> None:
    script = f"{shlex.join(RANKUP)} grade {NAME} mine.py --check sum {closed}; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", script], cwd=learner.folder, env=learner.environment, capture_output=True)
    assert (ran.returncode, ran.stderr) == (CLOSED[closed], b"")


@pytest.mark.heavy
def test_many_at_once_are_all_done(learner: Learner) -> None:
    commands = [learner.command("grade", NAME, "mine.py", "--check", "bytes") for _ in range(20)]
    ended = [process.communicate(timeout=300) and process.returncode for process in commands]
    assert ended == [0] * 20
    assert learner.service()


@pytest.mark.heavy
def test_a_service_without_its_socket_ends(learner: Learner) -> None:
    learner.verdict()
    service = learner.service()
    below = service.children(recursive=True)
    for path in Path(learner.sockets, "rankup").glob("*.sock"):
        path.unlink()
    assert gone([service, *below])


@pytest.mark.heavy
def test_without_a_folder_of_ones_own_a_command_does_without(learner: Learner, tmp_path: Path) -> None:
    (tmp_path / "rankup").mkdir(mode=0o755)
    (tmp_path / f"rankup-{os.getuid()}").symlink_to("/tmp")
    shared = str(tmp_path)
    done = learner.done("grade", NAME, "mine.py", XDG_RUNTIME_DIR=shared, TMPDIR=shared)
    assert done[0] == 0, done
    assert not list(tmp_path.glob("rankup*/*.sock"))


def test_another_version_of_the_files_is_another_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "grader" / "part.py"
    source.parent.mkdir()
    source.write_text("1")
    monkeypatch.setattr(place, "PACKAGE", str(source.parent))
    before = place.name()
    assert place.name() == before
    source.write_text("22")
    changed = place.name()
    assert changed[0] == before[0]
    assert changed[1] != before[1]
    monkeypatch.setenv("RANKUP_SANDBOX", "none")
    assert place.name()[0] != before[0]
    monkeypatch.delenv("RANKUP_SANDBOX")
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path))
    assert place.name() == changed


def test_an_idle_service_ends(sockets: str) -> None:
    code = "from grader.daemon import server, client\nimport sys\nserver.IDLE_SECONDS = server.LOOK_SECONDS = 0.1\n"
    path = f"{sockets}/idle.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        number = listening.fileno()
        code += f"server.main(['{number}', '{path}'])"
        subprocess.run([sys.executable, "-c", code], pass_fds=[number], timeout=60, check=True)
