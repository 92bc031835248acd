"""A box, in each mode that this machine has: what is out of reach, what each limit does, and that nothing is left."""

from __future__ import annotations

import os
import socket
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from often import often

from grader.ranks import WORKER
from grader.ranks.engines import Engines
from grader.ranks.program import Limits, Program, Run, same_for_all
from grader.sandbox import modes
from grader.sandbox.limits import MIB, BoxLimits
from grader.sandbox.warm import Unwatched, Warm
from tests import processes

BOX = BoxLimits(
    memory_bytes=512 * MIB,
    processes=60,
    disk_bytes=32 * MIB,
    inodes=300,
    open_files=128,
    file_bytes=16 * MIB,
    cpu_seconds=3,
)
SLOW_BOX = replace(BOX, cpu_seconds=30)
SLOW = Limits(cpu_seconds=20, idle_seconds=20, silent_seconds=30, box=SLOW_BOX)  # memory is slow the first time
QUICK = Limits(cpu_seconds=1.0, idle_seconds=1.5, silent_seconds=30, box=BOX)
HEAD = "import ctypes, os, signal, socket, sys, tempfile, threading, time\nimport torch, torch.distributed as dist\n\n"


FEWER_WALLS = pytest.param("none", marks=[] if modes.why_not("full") else pytest.mark.heavy)


@pytest.fixture(scope="module", params=["full", FEWER_WALLS])
def boxes(request: pytest.FixtureRequest) -> Iterator[Engines]:
    mode: modes.Mode = request.param
    if why := modes.why_not(mode):
        pytest.skip(f"no {mode} isolation on this machine: {why}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKUP_SANDBOX", mode)
        warm = Warm(WORKER)
    engine = Engines(warm)
    yield engine
    assert warm.mode == mode
    engine.close()


def run(boxes: Engines, body: str, ranks: int = 1, limits: Limits = QUICK) -> Run:
    """Call `f()` with this body; line 5 is its first."""
    source = HEAD + "def f():\n" + textwrap.indent(textwrap.dedent(body).strip() + "\n", "    ")
    return boxes.run("gloo", Program.of(source, "learner.py", "f", ()), ranks, [same_for_all(ranks)], 1, limits)


def returned(run: Run) -> object:
    assert run.finished, (run.diagnoses, run.stderr)
    return run.calls[0].returned[0]


def only_full(boxes: Engines) -> None:
    if boxes.warm.mode != "full":
        pytest.skip("only full isolation promises this")


# ---- what is out of reach

ROOT = Path(__file__).resolve().parent.parent.parent
READS = [
    "grader/exercises/ring_all_reduce/__init__.py", "solutions", "tests", "pyproject.toml",
    "grader/exercise.py", ".git",
]  # fmt: skip


@pytest.mark.parametrize("path", [*(str(ROOT / name) for name in READS), "/root", "/home", "/etc/shadow", "/var"])
def test_what_a_submission_is_not_to_see_is_not_there(boxes: Engines, path: str) -> None:
    only_full(boxes)
    body = f"""
        try:
            return str(os.listdir({path!r}) if os.path.isdir({path!r}) else open({path!r}).read())
        except OSError as error:
            return type(error).__name__
    """
    seen = returned(run(boxes, body))
    if path == "/root":
        assert seen in ("FileNotFoundError", "PermissionError", "['.pyenv']"), seen  # where the interpreter may be
    else:
        assert seen in ("FileNotFoundError", "PermissionError", "[]"), seen


def test_the_environment_holds_nothing_of_the_callers(boxes: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    mode = boxes.warm.mode
    monkeypatch.setenv("RANKUP_SANDBOX", mode)
    with Warm(WORKER) as warm:
        seen = returned(run(Engines(warm), "return open('/proc/self/environ').read() + str(dict(os.environ))"))
    assert "hunter2" not in str(seen)


@pytest.mark.parametrize(
    "path", ["/rankup-canary", "/usr/rankup-canary", "/dev/rankup-canary", str(ROOT / "rankup-canary"),
             f"{os.path.dirname(psutil.__file__)}/rankup-canary"],
)  # fmt: skip
def test_nothing_outside_can_be_written(boxes: Engines, path: str) -> None:
    only_full(boxes)
    seen = returned(run(boxes, f"try: open({path!r}, 'w')\nexcept OSError as error: return type(error).__name__"))
    assert seen in ("PermissionError", "OSError", "FileNotFoundError")
    assert not os.path.exists(path)


def test_processes_outside_are_out_of_reach(boxes: Engines) -> None:
    only_full(boxes)
    body = f"""
        reached = []
        for pid in (os.getppid(), {os.getpid()}, 1):
            for name in ("environ", "mem", "maps"):
                try:
                    open(f"/proc/{{pid}}/{{name}}", "rb").read(1)
                except OSError:
                    continue
                reached.append((pid, name))
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
            reached.append((pid, "kill"))
        return str(reached)
    """
    seen = str(returned(run(boxes, body)))
    assert seen.replace("(1, 'kill')", "").strip("[], ") == ""  # sent in vain: it is the first of its namespace


def test_the_machines_loopback_is_out_of_reach(boxes: Engines) -> None:
    only_full(boxes)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        body = f"""
            try: socket.create_connection(("127.0.0.1", {port}), 1)
            except OSError as error: return type(error).__name__
        """
        assert returned(run(boxes, body)) == "ConnectionRefusedError"


def test_there_is_no_way_to_other_machines(boxes: Engines) -> None:
    only_full(boxes)
    body = """
        try: socket.create_connection(("192.0.2.1", 80), 1)
        except OSError as error: return error.strerror
    """
    assert returned(run(boxes, body)) == "Network is unreachable"


def test_ranks_share_no_files(boxes: Engines) -> None:
    only_full(boxes)
    body = """
        r = dist.get_rank()
        reached = []
        if r == 0:
            open("secret", "w").write("7")
            for folder in ("/tmp", "/dev/shm", "/var/tmp", ".."):
                try: open(f"{folder}/secret", "w").write("7")
                except OSError: pass
        dist.barrier()
        for path in ("../rank-0/secret", "/tmp/secret", "/dev/shm/secret", "/var/tmp/secret", "../secret"):
            if r == 1 and os.path.exists(path):
                try: reached.append(open(path).read() and path)
                except OSError: pass
        return str(reached)
    """
    done = run(boxes, body, ranks=2)
    assert done.finished, done.diagnoses
    assert done.calls[0].returned[1] == "[]"


@pytest.mark.parametrize("call", ["unshare(0x10000000)", "mount(b'x', b'/tmp', b'tmpfs', 0, 0)", "ptrace(16, 1, 0, 0)"])
def test_calls_of_the_kernel_that_a_rank_does_not_need_are_refused(boxes: Engines, call: str) -> None:
    only_full(boxes)
    body = f"libc = ctypes.CDLL(None, use_errno=True)\nreturn (libc.{call}, ctypes.get_errno())[1]"
    assert returned(run(boxes, body)) == 1


# ---- limits: body, kind, ending, words of the sentence

BEYOND = {
    "memory": (
        "x = []\nwhile True: x.append(torch.ones(2**22))", "out_of_memory", "out_of_memory", ("512 MiB", "line 6"),
    ),
    "memory at once": ("x = torch.empty(2**33)", "out_of_memory", "out_of_memory", ("line 5",)),
    "memory of children": (
        "for _ in range(4):\n    if os.fork() == 0:\n        x = torch.ones(2**26)\n        break\ntime.sleep(60)",
        "out_of_memory", "out_of_memory", ("512 MiB",),
    ),
    "memory that is shared": (
        "import mmap\nx = mmap.mmap(-1, 2**31)\nfor k in range(0, 2**31, 2**20): x[k] = 1; x.write(bytes(2**20))",
        "out_of_memory", "out_of_memory", ("512 MiB",),
    ),
    "processes": (
        "while True:\n    if os.fork() == 0: time.sleep(60)", "sandbox_violation", "crashed", ("processes",),
    ),
    "threads": (
        "while True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        "sandbox_violation", "crashed", ("processes and threads",),
    ),
    "disk": (
        "for k in range(99): open(f'{k}', 'wb').write(bytes(2**20))",
        "sandbox_violation", "crashed", ("disk is full", "line 5"),
    ),
    "inodes": ("for k in range(999): open(f'{k}', 'w')", "sandbox_violation", "crashed", ("disk is full",)),
    "one file": (
        "with open('a', 'wb') as file:\n    while True: file.write(bytes(2**20))",
        "sandbox_violation", "crashed", ("largest size",),
    ),
    "open files": ("x = [open('/dev/null') for _ in range(999)]", "sandbox_violation", "crashed", ("more files open",)),
    "output": ("while True: os.write(1, b'x' * 65536)", "sandbox_violation", "crashed", ("printing",)),
    "stderr": ("while True: os.write(2, b'x' * 65536)", "timeout", "timed_out", ("CPU time",)),
    "time": ("while True: pass", "timeout", "timed_out", ("CPU time", "line 5")),
    "time of children": (
        "for _ in range(3):\n    if os.fork() == 0:\n        while True: pass\nos.wait()", "timeout", "timed_out", (),
    ),
    "patience": ("time.sleep(600)", "timeout", "timed_out", ("stood still", "line 5")),
}  # fmt: skip


@pytest.mark.parametrize("name", often(list(BEYOND), *(BEYOND.keys() - {"patience", "stderr", "time of children"})))
def test_every_limit_has_its_own_ending_and_sentence(boxes: Engines, name: str) -> None:
    body, kind, ending, words = BEYOND[name]
    if name in ("disk", "inodes"):
        only_full(boxes)
    done = run(boxes, body, limits=SLOW if kind == "out_of_memory" else QUICK)
    assert done.diagnoses, done.ending
    found = done.diagnoses[0]
    assert (done.ending, found.kind) == (ending, kind), found.message
    for word in words:
        assert word in found.message
    assert not processes.left_of_boxes(boxes.warm)


def test_the_simulators_process_has_the_same_limits(boxes: Engines) -> None:
    source = HEAD + "def f():\n    x = []\n    while True: x.append(torch.ones(2**22))\n"
    done = boxes.run("sim", Program.of(source, "a.py", "f", ()), 4, [same_for_all(4)], 1, SLOW)
    assert (done.ending, done.diagnoses[0].kind) == ("out_of_memory", "out_of_memory"), done.diagnoses


# ---- nothing is left

DETACH = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3): os.close(fd)
        print("x")
        time.sleep(600)
    os._exit(0)
"""


@pytest.mark.parametrize(
    "then", ["", "os.kill(os.getppid(), 9)\ntime.sleep(600)", "os._exit(0)", "os.kill(0, 9)", "os.kill(-1, 9)"]
)
def test_a_detached_process_is_gone_after_the_run(boxes: Engines, then: str) -> None:
    if "-1" in then and boxes.warm.mode == "none":
        pytest.skip("without isolation that would be everybody's end")
    before = threading.active_count()
    if "getppid" in then and boxes.warm.mode == "none":  # its parent is the one that watches it: nothing is graded
        with pytest.raises(Unwatched):
            run(boxes, DETACH + then)
    else:
        run(boxes, DETACH + then)
    assert not processes.left_of_boxes(boxes.warm)
    assert threading.active_count() == before


def test_the_next_run_knows_nothing_of_the_one_before(boxes: Engines) -> None:
    run(boxes, "open('left', 'w').write('x')\nopen(os.path.join(tempfile.gettempdir(), 'left'), 'w').write('x')")
    seen = "return str(os.listdir('.') + [n for n in os.listdir(tempfile.gettempdir()) if n == 'left'])"
    assert returned(run(boxes, seen)) == "[]"
