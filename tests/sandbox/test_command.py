"""A command in a box: what it sees and reaches, and that nothing of it is left."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.sandbox import modes
from grader.sandbox.command import wrap
from grader.sandbox.limits import BoxLimits
from grader.sandbox.supervise import kill_tree

ROOT = Path(__file__).parent.parent.parent
WALLED = [pytest.param("full", marks=pytest.mark.skipif(modes.why_not("full") != "", reason=modes.why_not("full")))]
EVERY = [*WALLED, "none"]


@pytest.fixture
def folder() -> Iterator[str]:
    """Empty, and short enough for the address of a socket."""
    with tempfile.TemporaryDirectory(prefix="rankup-test-") as name:
        yield name


def run(mode: modes.Mode, scratch: str, program: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A Python program in a box in the folder `scratch`."""
    wrapped = wrap([sys.executable, "-c", program], scratch=scratch, mode=mode, **options)
    process = subprocess.Popen(
        wrapped.argv,
        env=wrapped.env,
        pass_fds=wrapped.pass_fds,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wrapped.started()
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(wrapped.argv, process.returncode, out, err)


@pytest.mark.parametrize("mode", EVERY)
def test_it_starts_in_its_folder_and_sees_its_files(
    mode: modes.Mode, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_OF_THE_TEACHER", "secret")
    (tmp_path / "data.txt").write_text("for everybody")
    program = """
import json, os, pathlib
pathlib.Path("new.txt").write_text("mine")
print(json.dumps([os.getcwd(), pathlib.Path("../data/d.txt").read_text(), sorted(os.environ), os.environ["EXTRA"]]))
"""
    done = run(
        mode, folder, program, folder="work", files={"data/d.txt": tmp_path / "data.txt"}, env={"EXTRA": "this too"}
    )
    assert done.returncode == 0, done.stderr
    where, text, names, extra = json.loads(done.stdout)
    assert (where, text, extra) == (os.path.join(folder, "work"), "for everybody", "this too")
    assert "TOKEN_OF_THE_TEACHER" not in names
    assert (mode == "full") != Path(folder, "work", "new.txt").exists(), "a full box has a folder of its own there"


@pytest.mark.parametrize("mode", WALLED)
def test_it_reads_nothing_that_is_not_its_own(mode: modes.Mode, folder: str, tmp_path: Path) -> None:
    (tmp_path / "gradebook.db").write_text("points")
    hidden = [
        ROOT / "solutions",
        ROOT / "tests",
        ROOT / "nbgrader_config.py",
        ROOT / "grader" / "exercises" / "ring_all_reduce.py",
        ROOT / "grader" / "exercise.py",
        tmp_path / "gradebook.db",
        Path("/etc/fstab"),
        Path(f"/proc/{os.getpid()}/environ"),
    ]
    program = f"""
import os
for path in {list(map(str, hidden))!r}:
    try:
        print(path, os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(10))
    except OSError:
        pass
"""
    done = run(mode, folder, program)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("mode", WALLED)
def test_of_the_home_it_sees_the_interpreter_at_most(mode: modes.Mode, folder: str) -> None:
    home = Path.home()
    places = [Path(prefix) for prefix in (sys.prefix, sys.base_prefix, ROOT)]
    needed = {place.relative_to(home).parts[0] for place in places if place.is_relative_to(home)}
    program = f"""
import os
try:
    print(*os.listdir({str(home)!r}), sep="\\n")
except OSError:
    pass
"""
    done = run(mode, folder, program)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= needed


@pytest.mark.parametrize("mode", WALLED)
def test_it_changes_nothing_that_is_not_its_own(mode: modes.Mode, folder: str, tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("as it was")
    program = f"""
import os
for path in ({str(tmp_path / "kept.txt")!r}, {str(tmp_path / "new.txt")!r}, {str(ROOT / "grader" / "__init__.py")!r},
             os.path.join({sys.prefix!r}, "new.txt"), "/new.txt", "/dev/new"):
    try:
        open(path, "a").write("changed")
        print("wrote", path)
    except OSError:
        pass
    try:
        os.chmod(path, 0o777)
        print("changed", path)
    except OSError:
        pass
"""
    done = run(mode, folder, program)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


@pytest.mark.parametrize("mode", WALLED)
def test_its_network_is_its_own(mode: modes.Mode, folder: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = f"""
import socket
with socket.create_server(("127.0.0.1", 0)) as own:
    socket.create_connection(own.getsockname()).close()
    print("own loopback")
for address in (("127.0.0.1", {server.getsockname()[1]}), ("192.0.2.1", 80)):
    try:
        socket.create_connection(address, 5)
        print("reached", address)
    except OSError:
        pass
"""
        done = run(mode, folder, program)
    assert done.stdout == "own loopback\n", done.stderr


@pytest.mark.parametrize("mode", EVERY)
def test_a_socket_among_its_files_can_be_talked_to(mode: modes.Mode, folder: str) -> None:
    with tempfile.TemporaryDirectory(prefix="rankup-test-") as other, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{other}/s")
        server.listen()

        def answer() -> None:
            with server.accept()[0] as connection:
                connection.sendall(connection.recv(100).upper())

        threading.Thread(target=answer, daemon=True).start()
        program = (
            'import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect("s")\ns.sendall(b"hello")\nprint(s.recv(9))'
        )
        done = run(mode, folder, program, files={"s": Path(other, "s")})
    assert done.stdout == "b'HELLO'\n", done.stderr


@pytest.mark.parametrize("mode", EVERY)
@pytest.mark.parametrize("how", ["it ends", "it is killed"])
def test_its_daemons_are_gone_with_it(mode: modes.Mode, how: str, folder: str) -> None:
    program = f"""
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
print("ready", flush=True)
{"" if how == "it ends" else "time.sleep(1000)"}
"""
    read, write = os.pipe()
    wrapped = wrap([sys.executable, "-c", program], scratch=folder, mode=mode)
    with subprocess.Popen(
        wrapped.argv, env=wrapped.env, pass_fds=[*wrapped.pass_fds, write], stdout=subprocess.PIPE
    ) as process:
        os.close(write)
        wrapped.started()
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        if how == "it is killed":
            kill_tree(process.pid) if mode == "full" else process.terminate()
        assert os.read(read, 1) == b"", "nobody is left who could write to the pipe"
        os.close(read)


@pytest.mark.parametrize("mode", EVERY)
def test_it_ends_with_the_process_that_started_it(mode: modes.Mode, folder: str) -> None:
    read, write = os.pipe()
    starter = f"""
import os, subprocess, sys
from grader.sandbox.command import wrap
wrapped = wrap([sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(1000)"],
               scratch={folder!r}, mode={mode!r})
process = subprocess.Popen(wrapped.argv, env=wrapped.env, pass_fds=[*wrapped.pass_fds, {write}], stdout=subprocess.PIPE)
wrapped.started()
process.stdout.readline()
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", starter], pass_fds=[write], check=False, timeout=60)
    os.close(write)
    assert os.read(read, 1) == b"", "nobody is left who could write to the pipe"
    os.close(read)


@pytest.mark.parametrize("mode", EVERY)
def test_its_limits_hold(mode: modes.Mode, folder: str) -> None:
    limits = BoxLimits(memory_bytes=2**28, file_bytes=2**20, open_files=50, cpu_seconds=77)
    names = ("RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_CORE")
    program = f"import resource\nprint(*[resource.getrlimit(getattr(resource, name))[1] for name in {names!r}])"
    done = run(mode, folder, program, limits=limits)
    assert done.stdout.split() == ["1048576", "50", "77", str(2**29), "0"], done.stderr
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 50


@pytest.mark.parametrize("mode", WALLED)
def test_its_scratch_space_is_bounded(mode: modes.Mode, folder: str) -> None:
    program = """
import os
for place in (".", "/tmp", "/dev/shm"):
    found = os.statvfs(place)
    print(found.f_blocks * found.f_frsize)
"""
    done = run(mode, folder, program, limits=BoxLimits(disk_bytes=2**20))
    assert done.stdout.split() == ["1048576"] * 3, done.stderr


def test_what_cannot_be_started_says_so(folder: str) -> None:
    wrapped = wrap(["no-such-program"], scratch=folder, mode="none")
    done = subprocess.run(wrapped.argv, env=wrapped.env, capture_output=True, text=True, timeout=60)
    wrapped.started()
    assert done.returncode == 127
    assert done.stderr.startswith("no-such-program could not be started: [Errno "), done.stderr  # as PATH has it
