"""Serves the learner's create_app() with uvicorn in a life of its own, asks it over HTTP, and writes down the answers.

Runs in the director, which never loads the program; only `_live` and what it calls are beside it. A line, a connection
on the loopback, leads from the life to the director: at it a nurse, a thread of ours, tells where the server is and
what was counted, and stops the server's event loop while requests are sent that are to arrive together.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import http.client
import itertools
import json
import os
import secrets
import select
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from grader.ranks import learner
from grader.ranks.lives import Lives
from grader.sandbox.program import MODULE

CPU_SECONDS = 5
TICK_SECONDS = 0.05
STUCK_TICKS = 50  # in each of which a life that is to answer slept: it never will. On a busy machine ticks are longer
READY_TICKS = 8  # in each of which one slept that is not ready: nothing is loaded in the background
ANSWER_SECONDS = 40.0
PATIENCE_SECONDS = 20.0  # in which a life has nothing to do, since nobody asks it
HOLD_SECONDS = 20.0
REST_SECONDS = 3.0  # in which what comes after an answer is over
MOST_ENDLESS = 2  # lives that never answered, after which none is begun any more
MOST_BYTES = 2**18  # of an answer
STEP_SECONDS = 0.001  # between two lines of a thread of the learner's: the others come to theirs
MOST_STEPS = 400  # of a thread
IN_ACCESS, IN_CLOSE, IN_OPEN = 0x01, 0x18, 0x20
NONSENSE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)

_endless: list[dict[str, Any]] = []


# ---- in a life


def network(sizes: list[int]) -> torch.nn.Sequential:
    """The model of the statement."""
    layers: list[torch.nn.Module] = []
    for wide, out in itertools.pairwise(sizes[:-1]):
        layers += [torch.nn.Linear(wide, out), torch.nn.BatchNorm1d(out), torch.nn.ReLU(), torch.nn.Dropout(0.1)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-2], sizes[-1]))


class Text(str):
    """A path as text that also understands what a Path does."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(Path(self), name)

    def __truediv__(self, name: str) -> Path:
        return Path(self) / name


class Nurse:
    """Beside the server: counts, keeps what was raised, and does what the director asks for."""

    def __init__(self, port: int, token: str, file: str) -> None:
        self.file = file
        self.counts = {"loads": 0, "states": 0}
        self.raised: dict[str, Any] = {}
        self.loop: Any = None
        self.active = 0
        self.go = threading.Event()
        self._line = socket.create_connection(("127.0.0.1", port))
        self._telling = threading.Lock()
        self.tell([token, os.getpid()])
        threading.Thread(target=self._serve, daemon=True).start()

    def tell(self, value: Any) -> None:
        with self._telling:
            self._line.sendall(json.dumps(value).encode() + b"\n")

    def _serve(self) -> None:
        for asked in self._line.makefile():
            match asked.strip():
                case "count":  # an exception goes on after the answer that tells of it
                    until = time.monotonic() + REST_SECONDS
                    while self.active and time.monotonic() < until:
                        time.sleep(STEP_SECONDS)
                    self.tell({**self.counts, "raised": self.raised})
                case "where":
                    self.tell({"line": self._where()})
                case "hold":
                    self.go.clear()
                    self.loop.call_soon_threadsafe(self._hold)
                case "go":
                    self.go.set()
                    self.tell("went")
                case "end":
                    break
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def _where(self) -> int | None:
        """The line of the submission at which a thread or a task of it is."""
        import asyncio

        frames = list(sys._current_frames().values())
        for task in asyncio.all_tasks(self.loop) if self.loop else ():
            waits: Any = task.get_coro()
            while waits is not None and hasattr(waits, "cr_frame"):
                frames.insert(0, waits.cr_frame)
                waits = waits.cr_await
        for frame in frames:
            while frame is not None:
                if frame.f_code.co_filename == self.file:
                    return frame.f_lineno
                frame = frame.f_back  # type: ignore[assignment]
        return None

    def _hold(self) -> None:
        """In the event loop: stand still until all requests are sent."""
        self.tell("held")
        self.go.wait(HOLD_SECONDS)

    def count(self) -> None:
        """Count what is loaded, under whatever name it is called."""
        from torch import serialization

        for name in ("_load", "_legacy_load"):
            setattr(serialization, name, self._counted("loads", getattr(serialization, name)))
        torch.nn.Module.load_state_dict = self._counted("states", torch.nn.Module.load_state_dict)

    def _counted(self, what: str, function: Any) -> Any:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.counts[what] += 1
            return function(*arguments, **named)

        return counted

    def watched(self, app: Any) -> Any:
        """The application, with a note of every exception that leaves it."""

        async def outer(scope: Any, receive: Any, send: Any) -> None:
            self.active += scope["type"] == "http"
            try:
                await app(scope, receive, send)
            except BaseException as error:
                numbers = [value.decode() for name, value in scope.get("headers", ()) if name == b"x-request"]
                learner.print_traceback(error)
                self.raised[(numbers or ["startup"])[0]] = learner.raised(error, self.file, "call")
                raise
            finally:
                self.active -= scope["type"] == "http"

        return outer


def _slowed(file: str) -> Any:
    """A trace function that has a thread wait at each line of the submission: others get to be between any two."""
    steps: collections.Counter[int] = collections.Counter()

    def line(frame: Any, event: str, _: Any) -> Any:
        if event == "line" and steps[threading.get_ident()] < MOST_STEPS:
            steps[threading.get_ident()] += 1
            time.sleep(STEP_SECONDS)
        return line

    return lambda frame, event, _: line if frame.f_code.co_filename == file else None


def _live(functions: dict[str, Any], path: str, port: int, token: str, lifespan: Any, mixed: bool) -> None:
    """Make the learner's application and serve it, until the director has had enough."""
    import asyncio

    import uvicorn

    names = vars(sys.modules[MODULE])
    names.setdefault("network", network)
    nurse = Nurse(port, token, names["__file__"])
    nurse.count()
    if mixed:
        threading.settrace(_slowed(names["__file__"]))
    app = functions["create_app"](Text(path))
    if not callable(app) or isinstance(app, type):
        what = "None" if app is None else f"a {type(app).__name__}" if not isinstance(app, type) else "a class"
        raise TypeError(f"create_app() returned {what} instead of a FastAPI application")

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            with contextlib.suppress(SystemExit):  # its way to say that the application's startup failed
                await super().startup(sockets)
            self.should_exit = not self.started
            nurse.loop = asyncio.get_running_loop()
            for _ in range(0 if self.started else 10):
                await asyncio.sleep(0)  # an application whose startup failed has yet to raise
            nurse.tell({"port": sockets[0].getsockname()[1] if self.started else 0, "raised": nurse.raised})

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    Server(
        uvicorn.Config(
            nurse.watched(app), lifespan=lifespan, loop="asyncio", http="h11", ws="none", interface="asgi3",
            log_config=None, log_level="critical", access_log=False,
        )
    ).run(sockets=[listening])  # fmt: skip


# ---- in the director


class Opens:
    """How often a file is opened or read from, by anybody: the kernel tells (inotify)."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd, self._read, self.count = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), False, 0
        self.works = self._fd >= 0 and libc.inotify_add_watch(
            self._fd, os.fsencode(path), IN_OPEN | IN_ACCESS | IN_CLOSE
        ) >= 0  # fmt: skip

    def now(self) -> int:
        """Times that it was opened; a file that stays open and is read again counts as opened again."""
        with contextlib.suppress(BlockingIOError):
            while self.works:
                data = os.read(self._fd, 2**16)
                masks = [int.from_bytes(data[at + 4 : at + 8], sys.byteorder) for at in range(0, len(data), 16)]
                opened = sum(bool(mask & IN_OPEN) for mask in masks)
                self.count += opened or any(mask & IN_ACCESS for mask in masks)
        return self.count

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def _event(told: Any) -> dict[str, Any] | None:
    """What a life says that was raised."""
    if not isinstance(told, dict):
        return None
    line = told.get("line")
    return {
        "type": str(told.get("type"))[:100], "text": str(told.get("text"))[:2000],
        "line": line if isinstance(line, int) else None,
    }  # fmt: skip


class Client(threading.Thread):
    """Asks what is planned, and keeps every answer."""

    def __init__(self, plan: list[list[dict[str, Any]]], opens: Opens) -> None:
        super().__init__()
        self.plan, self.opens, self.token = plan, opens, secrets.token_hex(16)
        self.answers: list[dict[str, Any]] = []
        self.counts: list[dict[str, Any]] = []
        self.up = self.ended = False
        self.stuck, self.line_of_silence, self.process = False, None, 0
        self.startup: dict[str, Any] | None = None
        self.port, self.over = 0, threading.Event()
        self.line: Any = None
        self.listening = socket.socket()
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen(4)
        self.began = time.monotonic()

    def run(self) -> None:
        with contextlib.suppress(OSError, *NONSENSE):  # the life is gone, or it talks on a line that is not its own
            self._meet()
            self._wait(lambda: bool(select.select([self.line], [], [], TICK_SECONDS)[0]))
            while "port" not in (told := self._told()):  # it may come before the line that was asked for
                self.line_of_silence = told["line"]
            self.startup, self.port = _event(told["raised"].get("startup")), int(told["port"])
            self.up, self.began = bool(self.port), time.monotonic()
            for group in self.plan if self.up else ():
                self._ask(group)
                if self.answers[-1]["status"] is None:
                    break
            self.ended = self.up and self.answers[-1]["status"] is not None
        if self.line is not None:
            with contextlib.suppress(OSError):
                self.line.shutdown(socket.SHUT_RDWR)  # the nurse ends the life

    def _meet(self) -> None:
        """The connection of this life, and of nobody else."""
        while not self.over.is_set():
            if not select.select([self.listening], [], [], 0.05)[0]:
                continue
            self.line = self.listening.accept()[0]
            self.line.settimeout(ANSWER_SECONDS)
            match self._told():
                case [self.token, int(process)]:
                    self.process = process
                    return
        raise OSError("nobody came")

    def _sleeps(self) -> bool:
        """Whether no thread of the life wants the processor."""
        with contextlib.suppress(OSError):
            stats = [path.read_text() for path in Path(f"/proc/{self.process}/task").glob("*/stat")]
            return not any(stat.rpartition(")")[2].split()[0] in "RD" for stat in stats)
        return False

    def _wait(self, over: Callable[[], bool]) -> None:
        """Until it is over, each look at which takes a tick; a life that sleeps at every look is asked where it is, and
        ended."""
        asleep = 0
        while not over():
            asleep = asleep + 1 if self._sleeps() else 0
            if asleep == STUCK_TICKS:
                self.stuck = True
                self.line.sendall(b"where\nend\n")
                while "line" not in (told := self._told()):
                    pass
                self.line_of_silence = told["line"]

    def _told(self, asked: bytes = b"") -> Any:
        if asked:
            self.line.sendall(asked + b"\n")
        line = b""
        while not line.endswith(b"\n"):  # no more than that: what comes later is waited for by select
            if len(line) > MOST_BYTES or not (seen := self.line.recv(2**16, socket.MSG_PEEK)):
                raise OSError("no line came")
            line += self.line.recv(seen.find(b"\n") + 1 or len(seen))
        return json.loads(line)

    def _ask(self, group: list[dict[str, Any]]) -> None:
        """Send requests, so that they arrive together where there are several, and wait for all answers."""
        together = len(group) > 1
        first, found = len(self.answers), [dict[str, Any]() for _ in group]
        if together:
            self._told(b"hold")
        threads = [
            threading.Thread(target=self._one, args=(request, first + number, found[number]))
            for number, request in enumerate(group)
        ]
        self.sent = threading.Barrier(len(group) + 1) if together else None
        for thread in threads:
            thread.start()
        if self.sent is not None:
            with contextlib.suppress(threading.BrokenBarrierError):
                self.sent.wait(HOLD_SECONDS)
            self._told(b"go")
        for thread in threads:
            self._wait(lambda thread=thread: bool(thread.join(TICK_SECONDS)) or not thread.is_alive())  # type: ignore[misc]
        self.answers += found
        told = self._told(b"count")
        raised = told.pop("raised")
        for number, each in enumerate(found, first):
            each["raised"] = _event(raised.get(str(number)))
        self.counts.append({"loads": int(told["loads"]), "states": int(told["states"]), "opens": self.opens.now()})

    def _one(self, request: dict[str, Any], number: int, found: dict[str, Any]) -> None:
        """One request; one that is patient is asked again while the server says that it is not ready."""
        found |= {"status": None, "body": "", "error": "", "raised": None, "begin": time.monotonic() - self.began}
        asleep = 0
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
            try:
                body = request["body"]
                headers = {"x-request": str(number)} | ({"content-type": "application/json"} if body else {})
                connection.request(
                    request["method"], request["path"], body.encode(errors="surrogateescape") or None, headers
                )
                if self.sent is not None:
                    self.sent.wait(HOLD_SECONDS)
                answer = connection.getresponse()
                found["body"] = answer.read(MOST_BYTES).decode(errors="replace")
                found["status"] = answer.status
            except (OSError, http.client.HTTPException, threading.BrokenBarrierError) as error:
                found["error"] = f"{type(error).__name__}: {error}"
            finally:
                connection.close()
            if not request["patient"] or found["status"] != 503 or asleep == READY_TICKS:
                break
            time.sleep(TICK_SECONDS / 2)
            asleep = asleep + 1 if self._sleeps() else 0
        found["end"] = time.monotonic() - self.began


class _Runs:
    """Pickled, it is a call: whoever loads it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._folder),)


def _written(path: Path, sizes: list[int], state: dict[str, torch.Tensor], ruin: str) -> None:
    """The checkpoint, as a training leaves it, or ruined."""
    if ruin == "missing":
        return
    whole: Any = {"sizes": sizes, "model": collections.OrderedDict(state)}
    last = next(reversed(state))
    match ruin:
        case "text":
            path.write_text("not a checkpoint\n")
            return
        case "list":
            whole = [sizes, whole["model"]]
        case "no sizes" | "no model":
            del whole[ruin.removeprefix("no ")]
        case "a key less":
            del whole["model"][last]
        case "a key more":
            whole["model"]["7." + last] = state[last].clone()
        case "a shape":
            whole["model"][last] = torch.zeros(len(state[last]) + 1)
        case "other sizes":
            whole["sizes"] = [sizes[0] + 1, *sizes[1:]]
        case "sizes that are none":
            whole["sizes"] = "many"
        case "no tensor":
            whole["model"][last] = "a string"
        case "code":
            whole["note"] = _Runs(path.parent / "ran")
    torch.save(whole, path)
    if ruin in ("cut", "empty"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 if ruin == "cut" else 0])


def serve(
    lives: Lives, sizes: list[int], names: list[str], tensors: list[torch.Tensor], ruin: str, lifespan: str,
    mixed: bool, plan: list[list[dict[str, Any]]],
) -> dict[str, Any]:  # fmt: skip
    """One application on one checkpoint: what it was asked for, group after group, and what it answered."""
    if len(_endless) >= MOST_ENDLESS:
        return {**_endless[-1], "answers": [], "again": True}
    room = Path(tempfile.mkdtemp(prefix="serving-"))
    path = room / "model.pt"
    _written(path, sizes, dict(zip(names, tensors, strict=True)), ruin)
    client = Client(plan, opens := Opens(path))
    client.start()
    try:
        life = lives.run(
            _live, str(path), client.listening.getsockname()[1], client.token, lifespan, mixed, rooms=[room],
            patience=PATIENCE_SECONDS, cpu_seconds=CPU_SECONDS,
        )  # fmt: skip
    finally:
        client.over.set()
        client.join()
        client.listening.close()
        opens.close()
    told = {
        "up": client.up, "startup": client.startup, "answers": client.answers, "counts": client.counts,
        "event": None if client.ended else life.processes[0].event, "ran": (room / "ran").exists(),
        "watched": opens.works, "line": client.line_of_silence, "stuck": client.stuck, "again": False,
    }  # fmt: skip
    if told["stuck"] or (told["event"] and told["event"].get("why") == "stuck"):
        _endless.append(told)
    shutil.rmtree(room)
    return told
