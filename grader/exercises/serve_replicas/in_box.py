"""Starts the learner's serve_replica() in processes of their own, and does to them what happens to replicas behind a balancer.

Runs in the director, which never loads the program (`lives/gates`); only `_live` and what it calls are in the replicas.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import torch

from grader.ranks.lives import Lives
from grader.ranks.lives.gates import (
    EXIT_TICKS,
    LOAD,
    MODEL,
    NONSENSE,
    NUDGE,
    SETTLED_TICKS,
    STATE,
    STUCK_TICKS,
    Nurse,
    Stage,
)
from grader.sandbox.program import MODULE

CPU_SECONDS = 8
PATIENCE_SECONDS = 25.0  # in which all replicas may sleep before somebody ends them
LARGE = 4  # see asked.py
PORTS = range(20_000, 32_000)  # below those that the kernel gives to whoever connects

_endless: list[int] = []  # replicas that did not end after SIGTERM: the next one is not waited for as long


# ---- in a replica


def network(sizes: list[int]) -> torch.nn.Sequential:
    """The model of the statement."""
    layers: list[torch.nn.Module] = []
    for wide, out in itertools.pairwise(sizes[:-1]):
        layers += [torch.nn.Linear(wide, out), torch.nn.BatchNorm1d(out), torch.nn.ReLU(), torch.nn.Dropout(0.1)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-2], sizes[-1]))


def _live(functions: dict[str, Any], path: str, ports: list[int], line: int, token: str, shut: list[str]) -> None:
    """Be a replica: call serve_replica() when it is told to, and end as a program does that returns from it."""
    import uvicorn.lifespan.on  # noqa: F401 - it is slow to import, and there before

    rank = int(os.environ["RANK"])
    vars(sys.modules[MODULE]).setdefault("network", network)
    nurse = Nurse(line, token, rank, shut)
    nurse.stand()
    signal.signal(NUDGE, lambda *_: None)
    run, status = functions["serve_replica"], 0
    nurse.begins.wait()
    try:
        run(path, ports[rank])
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    # as at the end of any program: threads that are no daemons are waited for
    threading._shutdown()  # type: ignore[attr-defined]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 0xFF)


def _pod(functions: dict[str, Any], arguments: list[Any]) -> str:
    """What pod() returns, as JSON; and in a second line what has become of that after another call."""
    found = functions["pod"](*arguments)
    if not isinstance(found, dict):
        raise TypeError(f"pod() returned {'None' if found is None else f'a {type(found).__name__}'} instead of a dict")
    first, (image, *numbers) = json.dumps(found, allow_nan=False), arguments
    with contextlib.suppress(Exception):  # what other arguments give is not this case's matter
        functions["pod"](f"{image}-next", *(number + 1 for number in numbers))
    return f"{first}\n{json.dumps(found)}"


# ---- scripts


def live(stage: Stage) -> None:
    """/health while it loads, and while it computes."""
    (one,) = stage.replicas
    stage.begin(one, LOAD)
    stage.reach(one, LOAD)
    stage.heard(one, "loading", "/health")
    stage.open(one, LOAD)
    stage.ready(one)
    stage.shut(one, MODEL)
    held = stage.flight(one, [0])
    stage.ask(one, "computing", "/health")
    stage.open(one, MODEL)
    stage.answered(one, held[0])


def ready(stage: Stage) -> None:
    """/ready while the file is read, before the weights are in the model, and after it."""
    (one,) = stage.replicas
    stage.begin(one, LOAD, STATE)
    stage.reach(one, LOAD)
    stage.ask(one, "loading", "/ready")
    stage.ask(one, "loading", "/predict", 0)
    stage.open(one, LOAD)
    if stage.reach(one, STATE):
        stage.ask(one, "filling", "/ready")
        stage.ask(one, "filling", "/predict", 0)
    stage.open(one, STATE)
    stage.ready(one)
    stage.ask(one, "first", "/predict", 0)
    stage.ask(one, "second", "/predict", 1)


def unusable(stage: Stage) -> None:
    """A checkpoint that cannot be used."""
    (one,) = stage.replicas
    stage.begin(one)
    stage.reach(one, LOAD)
    for path in ("/health", "/ready"):
        stage.heard(one, "unusable", path)
    stage.again(one, "unusable", "/ready", lambda found: found["status"] == 200, SETTLED_TICKS)
    stage.ask(one, "unusable", "/predict", 0)


def killed(stage: Stage) -> None:
    """Two replicas in turn; one is killed with requests in its hands, and started again."""
    first, second, again = stage.replicas
    both = [first, second]
    for each in both:
        stage.begin(each)
    for each in both:
        stage.ready(each)
    for body in range(4):
        stage.ask(both[body % 2], "before", "/predict", body)
    for each in both:
        stage.shut(each, MODEL)
    lost, kept = stage.flight(first, [4, 6]), stage.flight(second, [5, 7])
    stage.kill(first)
    for found in lost:
        stage.answered(first, found)
    before = second.at[MODEL]
    retried = [stage.send(second, "retried", "/predict", found["body"]) for found in lost if found["status"] is None]
    stage.held(second, retried, before)
    stage.open(second, MODEL)
    for found in (*kept, *retried):
        stage.answered(second, found)
    for body in (8, 9):
        stage.ask(second, "alone", "/predict", body)
    stage.begin(again)
    stage.ready(again)
    for body in range(10, 14):
        stage.ask(again if body % 2 else second, "after", "/predict", body)


def drain(stage: Stage) -> None:
    """SIGTERM, with requests in its hands, without, or while it loads (`more`: "held", "idle", "loading").

    One of those that it holds has a large answer, and a client that reads it when the others have theirs. Who is idle has
    had a client that hung up.
    """
    (one,) = stage.replicas
    if stage.more == "loading":
        stage.begin(one, LOAD)
        stage.reach(one, LOAD)
        stage.heard(one, "early", "/health")
    else:
        stage.begin(one)
        stage.ready(one)
        stage.ask(one, "before", "/predict", 0)
    held = []
    if stage.more == "held":
        stage.shut(one, MODEL)
        held = stage.flight(one, [1, 2], slow=LARGE)
    elif stage.more == "idle":
        stage.shut(one, MODEL)
        stage.hang_up(one, 1)
        stage.open(one, MODEL)
        stage.settle(one)
    stage.note("SIGTERM", one)
    one.signal(signal.SIGTERM)
    if held:
        stage.again(
            one, "draining", "/ready", lambda found: one.nudged() or found["status"] != 200, STUCK_TICKS // 2
        )  # fmt: skip
        stage.settle(one)  # who stops listening now has done so then
        late = stage.send(one, "late", "/predict", 3)
        stage.answered(one, late, STUCK_TICKS // 2)
        stage.ask(one, "draining", "/ready")
        stage.ask(one, "draining", "/health")
        stage.open(one, MODEL)
        for found in held[:-1]:
            stage.answered(one, found)
        if stage.wait(one, lambda: one.gone, STUCK_TICKS // 2):  # who does not wait for that client is gone then
            stage.note("cut", one)
        stage.reads.set()
        for found in (*held, late):
            stage.answered(one, found)
    if stage.wait(one, one.nudged, STUCK_TICKS if _endless else EXIT_TICKS):
        stage.note("gone", one)
    else:
        _endless.append(one.rank)


def probes(stage: Stage) -> None:
    """What the manifest's probes are answered while it loads, and when it is ready; or on a checkpoint that is broken
    (`more`: paths, and whether it is)."""
    (one,) = stage.replicas
    paths, broken = stage.more
    stage.begin(one, *(() if broken else (LOAD,)))
    stage.reach(one, LOAD)
    stage.heard(one, "first", "/health")
    for path in paths:
        stage.ask(one, "unusable" if broken else "loading", path)
    if not broken:
        stage.open(one, LOAD)
        stage.ready(one)
        for path in paths:
            stage.ask(one, "ready", path)


SCRIPTS = {
    "live": live, "ready": ready, "unusable": unusable, "killed": killed, "drain": drain, "probes": probes,
}  # fmt: skip


def _free(count: int) -> list[int]:
    """Ports at which nobody listens."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, 200):
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            break
    return found


def replicas(
    lives: Lives, script: str, sizes: list[int], names: list[str], tensors: list[torch.Tensor], ruin: str,
    bodies: list[str], more: Any, ports: list[int] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Play a script with replicas of one checkpoint: what they were asked, what they answered, and how they ended."""
    room = Path(tempfile.mkdtemp(prefix="serving-"))
    path = room / "model.pt"
    state = collections.OrderedDict(zip(names, tensors, strict=True))
    if ruin == "key":
        state.popitem()
    torch.save({"sizes": sizes, "model": state}, path)
    if ruin == "half":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    free = ports or _free(2 if script == "killed" else 1)
    ports = [*free, free[0]] if script == "killed" else free  # the third is the first one's successor
    stage = Stage(SCRIPTS[script], ports, bodies, more)
    stage.start()
    try:
        life = lives.run(
            _live, str(path), ports, stage.listening.getsockname()[1], stage.token, [], ranks=len(ports),
            strangers=True, rooms=[room], patience=PATIENCE_SECONDS, cpu_seconds=CPU_SECONDS,
        )  # fmt: skip
    finally:
        stage.over.set()
        stage.join()
        stage.listening.close()
        shutil.rmtree(room, ignore_errors=True)
    ends = [
        None if replica.killed else process.event
        for replica, process in zip(stage.replicas, life.processes, strict=True)
    ]
    return {"asks": stage.asks, "events": stage.events, "stopped": stage.stopped, "ends": ends}


def manifest(lives: Lives, arguments: list[Any]) -> dict[str, Any]:
    """What pod() returns, as JSON, and what that is after another call; or the event that ended it."""
    event = lives.run(_pod, arguments).processes[0]
    value = event.value
    if not isinstance(value, str):
        return {"pod": "", "after": "", "event": event.event}
    first, _, after = value.partition("\n")
    return {"pod": first, "after": after, "event": None}


def probed(
    lives: Lives, sizes: list[int], names: list[str], tensors: list[torch.Tensor], arguments: list[Any]
) -> dict[str, Any]:
    """The manifest for a real port, and what its probes are answered by a real process there."""
    (port,) = _free(1)
    told = manifest(lives, [arguments[0], port, *arguments[1:]])
    paths = _paths(told["pod"]) if told["pod"] else []
    for broken in (False, True) if told["pod"] else ():
        ruin, ports = ("half", None) if broken else ("", [port])
        told["broken" if broken else "whole"] = replicas(
            lives, "probes", sizes, names, tensors, ruin, [], [paths, broken], ports
        )
    return {**told, "port": port}


def _paths(pod: str) -> list[str]:
    """The paths that probes of it name."""
    found = []
    with contextlib.suppress(*NONSENSE):
        for container in json.loads(pod)["spec"]["containers"]:
            for name in ("startupProbe", "livenessProbe", "readinessProbe"):
                with contextlib.suppress(*NONSENSE):
                    path = str(container[name]["httpGet"].get("path", "/"))
                    if path.startswith("/") and path.isascii() and path.isprintable() and " " not in path[:200]:
                        found.append(path[:200])
    return sorted(set(found))[:6]
