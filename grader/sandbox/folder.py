"""A folder of the user's own in one box: its files as they are, where they are, and whatever is written there gone
with the box. For `rankup run`, never for what is graded.

The warm process cannot see the folder, and is not to: the grading process takes hold of it (`hold`) as a tree of mounts
that is attached nowhere, the folder with an empty overlay on it, and hands that to the box's first process, which gives
the box a new root with the tree in its place (`furnish`). See open_tree(2), move_mount(2), pivot_root(2).
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import stat
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grader.sandbox import LINUX, bwrap, namespaces, supervise

OPEN_TREE, MOVE_MOUNT = 428, 429  # the same on every architecture
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
MOST_BYTES, MOST_FILES = 2 * 2**30, 2**16  # that are written there; memory, which counts as the box's
_HERE, _CLONE, _RECURSIVE, _FROM_EMPTY_PATH = ctypes.c_long(-100), 1, 0x8000, 4
_BIND, _REMOUNT, _DETACH = 0x1000, 0x20, 2
_FLAGS = namespaces.MS_NOSUID | namespaces.MS_NODEV
# of which no folder is shown, nor anything below: they are the machine's, or hold what programs keep secret
SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/lib",
          "/var/run")  # fmt: skip

_libc = ctypes.CDLL(None, use_errno=True)
if LINUX:
    _libc.syscall.restype = ctypes.c_long


class NotShown(Exception):  # noqa: N818 - says what is the case
    """A folder that no box may see, or that this machine cannot show: why, as the end of a sentence."""


@dataclass(frozen=True)
class Folder:
    """A folder that a box is to have in its place. Of what lies in it, `kept` is as any box has it (Python and its
    packages, and of this package what is no answer), and `hidden` is empty: answers."""

    path: str
    kept: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    @classmethod
    def of(cls, path: Path) -> Folder:
        """Raises NotShown for one that is too much to be shown."""
        path = path.resolve()
        hidden = bwrap.all_answers()
        for each in hidden:
            if path.is_relative_to(each):
                raise NotShown(f"{path} holds answers of exercises")
        if why := too_much(path):
            raise NotShown(f"{path} {why}")
        kept = [*bwrap.interpreter(), bwrap.package(), bwrap.chapters()]
        inside = [str(each) for each in kept if each.exists() and each != path and each.is_relative_to(path)]
        empty = [str(each) for each in hidden if each.is_dir() and each.is_relative_to(path)]
        return cls(str(path), tuple(inside), tuple(empty))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any] | None) -> Folder | None:
        return None if data is None else cls(data["path"], tuple(data["kept"]), tuple(data["hidden"]))


def too_much(path: Path) -> str:
    """Why a folder holds more than a program's own files, as "is your home folder"; "" if it does not."""
    home = Path.home().resolve()
    if path == home:
        return "is your home folder"
    if home.is_relative_to(path):
        return "holds your home folder" if len(path.parts) > 1 else "is the whole machine"
    if path.is_relative_to(home) and path.relative_to(home).parts[0].startswith("."):
        return "is where programs keep settings and keys"
    shared = {Path(each).resolve() for each in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")}
    if path in shared:
        return "is shared with other programs"
    within = [each for each in SYSTEM if path.is_relative_to(each) and not any(map(path.is_relative_to, shared))]
    return f"is part of the system ({within[0]})" if within else ""


# ---- outside


def hold(folder: Folder) -> tuple[int, int]:
    """Descriptors of the folder, with room for what is written there, and of that room. Raises NotShown."""
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def send() -> int:
            try:
                socket.send_fds(theirs, [b"0"], _laid_over(folder))
            except OSError as error:
                theirs.send(str(error).encode())
            return 0

        child = supervise.fork(send)
        theirs.close()
        said, found, *_ = socket.recv_fds(ours, 1000, 2)
        os.waitpid(child, 0)
    if not found:
        raise NotShown(f"{folder.path} cannot be shown in the sandbox on this machine ({said.decode()})")
    return found[0], found[1]


def written(room: int) -> tuple[str, ...]:
    """What is new or changed in a folder, by the descriptor of the room for it: names at its top, of folders with "/"
    at the end."""
    with os.scandir(room) as entries:
        kinds = {each.name: each.is_dir(follow_symlinks=False) for each in entries if not _is_gone(each)}
    return tuple(sorted(f"{name}/" if folder else name for name, folder in kinds.items()))


def _is_gone(entry: os.DirEntry[str]) -> bool:
    """Whether it stands for a file that was removed."""
    return stat.S_ISCHR(entry.stat(follow_symlinks=False).st_mode)


def _laid_over(folder: Folder) -> list[int]:
    """In a process of its own: the folder below an overlay, as whoever has mounts of their own can make it, and the
    overlay's upper layer."""
    namespaces.enter(namespaces.NEWNS)
    namespaces.mount(None, "/", None, namespaces.MS_REC | namespaces.MS_PRIVATE)
    tree = _tree(folder.path)
    namespaces.mount("tmpfs", folder.path, "tmpfs", _FLAGS, f"size={MOST_BYTES},nr_inodes={MOST_FILES},mode=0755")
    os.chdir(folder.path)
    for name in ("lower", "upper", "work", "both"):
        os.mkdir(name)
    _move(tree, "lower")
    namespaces.mount("overlay", "both", "overlay", _FLAGS, "lowerdir=lower,upperdir=upper,workdir=work,userxattr")
    for path in folder.hidden:
        inside = os.path.relpath(path, folder.path)
        namespaces.mount("tmpfs", f"both/{inside}", "tmpfs", _FLAGS | namespaces.MS_RDONLY, "size=4k")
    return [_tree("both"), os.open("upper", os.O_RDONLY | os.O_DIRECTORY)]


# ---- inside


def furnish(folder: Folder, tree: int) -> None:
    """As process 1 of a box that is furnished: a root of its own, that has all the old one has and the folder too.
    Raises OSError."""
    room = Path(bwrap.SCRATCH, "room")
    room.mkdir()
    namespaces.mount("tmpfs", str(room), "tmpfs", _FLAGS, "size=1m,mode=0755")
    place = _with_a_gap(room, Path(folder.path))
    _move(tree, str(place))
    for path in folder.kept:
        _bind(path, f"{room}{path}", namespaces.MS_REC)
    namespaces.mount(None, str(room), None, _REMOUNT | _BIND | _FLAGS | namespaces.MS_RDONLY)
    os.chdir(room)
    _done("pivot_root", _libc.syscall(ctypes.c_long(PIVOT_ROOT[platform.machine()]), b".", b"."))
    _done("umount", _libc.umount2(b".", _DETACH))  # the old root, which lies over the new one
    os.rmdir(room)
    os.chdir("/")


def _with_a_gap(room: Path, gap: Path) -> Path:
    """Have all of `/` in `room`, but for the folder `gap`. Returns the empty folder that is there in its place."""
    old, new = Path("/"), room
    for part in gap.parts[1:]:
        for each in os.scandir(old) if old.is_dir() else ():
            there = new / each.name
            if each.name == part:
                continue
            if each.is_symlink():
                there.symlink_to(os.readlink(each.path))
                continue
            there.mkdir() if each.is_dir() else there.touch()
            _bind(each.path, str(there), 0 if each.path == bwrap.SCRATCH else namespaces.MS_REC)  # where the room is
        old, new = old / part, new / part
        new.mkdir()
    return new


# ---- system calls


def _tree(path: str) -> int:
    arguments = ctypes.c_long(OPEN_TREE), _HERE, os.fsencode(path), ctypes.c_long(_CLONE | _RECURSIVE | os.O_CLOEXEC)
    return _done("open_tree", _libc.syscall(*arguments))


def _move(tree: int, to: str) -> None:
    arguments = ctypes.c_long(tree), b"", _HERE, os.fsencode(to), ctypes.c_long(_FROM_EMPTY_PATH)
    _done("move_mount", _libc.syscall(ctypes.c_long(MOVE_MOUNT), *arguments))


def _bind(old: str, new: str, how: int) -> None:
    namespaces.mount(old, new, None, _BIND | how)


def _done(what: str, result: int) -> int:
    if result < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, f"{what}: {os.strerror(failed)}")
    return result
