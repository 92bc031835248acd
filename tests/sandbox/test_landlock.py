"""Every promise of the file rules, tried in children under them, as whoever runs the tests and as a spare user."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from forked import become, error_of, fork, in_child, users

from grader.sandbox import capabilities, landlock

Answer = TypeVar("Answer")

pytestmark = pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")
signals_kept = pytest.mark.skipif(landlock.abi() < 6, reason="this kernel's Landlock does not keep signals in")

SYSTEM = ["/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", sys.prefix, sys.base_prefix]


@dataclass(frozen=True)
class Folders:
    """What a child may read, may write, and may neither; a file in each, all of it owned by the child's user."""

    read: Path
    write: Path
    out: Path


@pytest.fixture(params=users())
def uid(request: pytest.FixtureRequest) -> int | None:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def folders(uid: int | None) -> Iterator[Folders]:
    with tempfile.TemporaryDirectory() as top:  # not tmp_path, which only its owner may enter
        os.chmod(top, 0o755)
        found = Folders(*(Path(top, name) for name in ("read", "write", "out")))
        for folder in (found.read, found.write, found.out):
            folder.mkdir()
            (folder / "file").write_text(folder.name)
            shutil.copy("/bin/true", folder / "program")
            for path in (folder, folder / "file", folder / "program"):
                os.chown(path, -1 if uid is None else uid, -1)
        yield found


def restricted(folders: Folders, do: Callable[[], Answer], uid: int | None, read: Sequence[str] = ()) -> Answer:
    def first() -> Answer:
        read_all = [*SYSTEM, str(folders.read), "/nothing/here", *read]
        landlock.restrict(read_all, [str(folders.write), "/dev/null", "/dev/zero"])
        return do()

    return in_child(first, uid)


def _open(path: Path | str, flags: int) -> None:
    os.close(os.open(path, flags, 0o600))


def _connect_abstract(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + name)


FILES: list[tuple[str, Callable[[Folders], object], int]] = [
    ("read below read", lambda at: (at.read / "file").read_text(), 0),
    ("list read", lambda at: os.listdir(at.read), 0),
    ("execute below read", lambda at: subprocess.run([at.read / "program"], check=True), 0),
    ("write below read", lambda at: _open(at.read / "file", os.O_WRONLY), errno.EACCES),
    ("append below read", lambda at: _open(at.read / "file", os.O_WRONLY | os.O_APPEND), errno.EACCES),
    ("create below read", lambda at: _open(at.read / "new", os.O_CREAT | os.O_WRONLY), errno.EACCES),
    ("remove below read", lambda at: os.unlink(at.read / "file"), errno.EACCES),
    ("folder below read", lambda at: os.mkdir(at.read / "new"), errno.EACCES),
    ("link below read", lambda at: os.symlink("/", at.read / "new"), errno.EACCES),
    ("read below write", lambda at: (at.write / "file").read_text(), 0),
    ("write below write", lambda at: (at.write / "file").write_text("x"), 0),
    ("create below write", lambda at: (at.write / "new").write_text("x"), 0),
    ("folder below write", lambda at: (at.write / "new" / "deep").mkdir(parents=True), 0),
    ("move below write", lambda at: os.rename(at.write / "file", at.write / "moved"), 0),
    ("remove below write", lambda at: os.unlink(at.write / "file"), 0),
    ("pipe below write", lambda at: os.mkfifo(at.write / "pipe"), 0),
    ("unnamed file below write", lambda at: _open(at.write, os.O_TMPFILE | os.O_RDWR), 0),
    ("execute below write", lambda at: subprocess.run([at.write / "program"], check=True), errno.EACCES),
    ("read outside", lambda at: (at.out / "file").read_text(), errno.EACCES),
    ("list outside", lambda at: os.listdir(at.out), errno.EACCES),
    ("list above", lambda at: os.listdir(at.out.parent), errno.EACCES),
    ("list the root", lambda _: os.listdir("/"), errno.EACCES),
    ("write outside", lambda at: _open(at.out / "file", os.O_WRONLY), errno.EACCES),
    ("truncate by opening", lambda at: _open(at.out / "file", os.O_TRUNC), errno.EACCES),
    ("execute outside", lambda at: subprocess.run([at.out / "program"], check=True), errno.EACCES),
    ("create outside", lambda at: _open(at.out / "new", os.O_CREAT | os.O_WRONLY), errno.EACCES),
    ("remove outside", lambda at: os.unlink(at.out / "file"), errno.EACCES),
    ("by a link", lambda at: (os.symlink(at.out, at.write / "l"), os.listdir(at.write / "l")), errno.EACCES),
    ("by the parent", lambda at: (at.write / ".." / "out" / "file").read_text(), errno.EACCES),
    ("by its root", lambda at: Path(f"/proc/self/root{at.out}/file").read_text(), errno.EACCES),
    ("null", lambda _: Path("/dev/null").write_text("x"), 0),
    ("zero", lambda _: _open("/dev/zero", os.O_RDONLY), 0),
    ("a device not given", lambda _: _open("/dev/urandom", os.O_RDONLY), errno.EACCES),
]
SINCE: list[tuple[int, str, Callable[[Folders], object], int]] = [
    (2, "move into write", lambda at: os.rename(at.out / "file", at.write / "got"), errno.EXDEV),
    (2, "move out of write", lambda at: os.rename(at.write / "file", at.out / "got"), errno.EXDEV),
    (2, "hard link into write", lambda at: os.link(at.out / "file", at.write / "got"), errno.EXDEV),
    (2, "move between folders of write", lambda at: (os.mkdir(at.write / "a"), _move_down(at.write)), 0),
    (3, "truncate outside", lambda at: os.truncate(at.out / "file", 0), errno.EACCES),
    (3, "truncate below read", lambda at: os.truncate(at.read / "file", 0), errno.EACCES),
    (3, "truncate below write", lambda at: os.truncate(at.write / "file", 0), 0),
]
PROMISES = [*FILES, *(promise for since, *promise in SINCE if landlock.abi() >= since)]


def _move_down(folder: Path) -> None:
    os.rename(folder / "file", folder / "a" / "file")


@pytest.mark.parametrize(("do", "wanted"), [row[1:] for row in PROMISES], ids=[str(row[0]) for row in PROMISES])
def test_a_promise_about_files(folders: Folders, uid: int | None, do: Callable[[Folders], object], wanted: int) -> None:
    before = {path: path.read_bytes() for path in (folders.read / "file", folders.out / "file")}
    refused = restricted(folders, lambda: error_of(lambda: do(folders)), uid)
    assert refused in ((errno.EXDEV, errno.EACCES) if wanted == errno.EXDEV else (wanted,))
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could make a device")
@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK])
def test_root_makes_no_devices(kind: int) -> None:
    with tempfile.TemporaryDirectory() as top:

        def make() -> int:
            landlock.restrict([], [top])
            return error_of(lambda: os.mknod(f"{top}/device", kind | 0o600, os.makedev(1, 3)))

        assert in_child(make) == errno.EACCES


def test_below_what_is_both_there_is_writing_and_executing(folders: Folders, uid: int | None) -> None:
    def execute() -> int:
        return error_of(lambda: subprocess.run([folders.write / "program"], check=True))

    assert restricted(folders, execute, uid, [str(folders.write)]) == 0


def test_a_file_that_was_open_stays_open(folders: Folders, uid: int | None) -> None:
    with open(folders.out / "file") as file:
        assert restricted(folders, file.read, uid) == "out"


def test_children_are_under_it_too(folders: Folders, uid: int | None) -> None:
    def cat() -> tuple[int, int]:
        paths = (folders.out / "file", folders.read / "file")
        ended = [subprocess.run(["cat", path], capture_output=True, check=False).returncode for path in paths]
        return ended[0], ended[1]

    assert restricted(folders, cat, uid) == (1, 0)


def test_more_rules_only_take_away(folders: Folders, uid: int | None) -> None:
    def again() -> list[int]:
        landlock.restrict([str(folders.out), str(folders.read)], [])
        paths = (folders.out / "file", folders.read / "file", folders.write / "file")
        return [error_of(path.read_text) for path in paths]

    assert restricted(folders, again, uid) == [errno.EACCES, 0, errno.EACCES]


# processes


@contextlib.contextmanager
def _sibling(folders: Folders, uid: int | None) -> Iterator[int]:
    """A process of the same user that waits, under rules of its own."""
    ready, telling = os.pipe()
    child = fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            restricted_here(folders, uid)
            os.write(telling, b"!")
            signal.pause()
        os._exit(1)
    os.close(telling)
    try:
        assert os.read(ready, 1) == b"!"
        yield child
    finally:
        os.close(ready)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def restricted_here(folders: Folders, uid: int | None) -> None:
    if uid is not None:
        become(uid)
    landlock.restrict([*SYSTEM, str(folders.read)], [str(folders.write)])


SECRETS = ["mem", "environ", "maps", "auxv", "cwd", "root", "fd/0"]


@pytest.mark.parametrize("secret", SECRETS)
def test_nobody_looks_into_a_sibling_or_the_parent(folders: Folders, uid: int | None, secret: str) -> None:
    """Nor root, once its capabilities are gone."""

    def look(pid: int | str) -> int:
        path = f"/proc/{pid}/{secret}"
        how = os.readlink if secret in ("cwd", "root", "fd/0") else _read_some
        return error_of(lambda: how(path))

    def look_around() -> list[int]:
        capabilities.drop_all()
        return [look(pid) for pid in ("self", sibling, os.getppid())]

    with _sibling(folders, uid) as sibling:
        told = restricted(folders, look_around, uid)
    own, *others = told
    assert own in (0, errno.EIO)  # nothing is mapped at the start of memory
    assert set(others) <= {errno.EACCES, errno.EPERM}


def _read_some(path: str) -> None:
    with open(path, "rb", buffering=0) as file:
        file.read(16)


@signals_kept
@pytest.mark.parametrize("sent", [0, signal.SIGCONT, signal.SIGKILL])
def test_no_signal_leaves(folders: Folders, uid: int | None, sent: int) -> None:
    parent = os.getpid()

    def send() -> list[int]:
        targets = (os.getpid() if not sent else parent, sibling, parent)
        return [error_of(lambda target=target: os.kill(target, sent)) for target in targets]  # type: ignore[misc]

    with _sibling(folders, uid) as sibling:
        told = restricted(folders, send, uid)
        assert os.waitpid(sibling, os.WNOHANG) == (0, 0)
    assert told == [errno.EPERM if sent else 0, errno.EPERM, errno.EPERM]


@signals_kept
def test_signals_below_go_on(folders: Folders, uid: int | None) -> None:
    def end_own() -> int:
        child = subprocess.Popen(["sleep", "1000"])
        child.terminate()
        return child.wait()

    assert restricted(folders, end_own, uid) == -signal.SIGTERM


@signals_kept
def test_no_abstract_socket_outside(folders: Folders, uid: int | None) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("")  # a name that is free
        listener.listen()
        name = listener.getsockname()[1:].decode()
        told = restricted(folders, lambda: error_of(lambda: _connect_abstract(name)), uid)
    assert told == errno.EPERM


def test_without_landlock_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    with pytest.raises(OSError, match="has no Landlock"):
        landlock.restrict(["/"], [])
