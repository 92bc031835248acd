"""Two replicas behind a balancer: one is not ready yet, one is killed, one is told to end. Who gets an error, how long?

    python replicas.py [--short] [--json]

needs fastapi and uvicorn: `pip install 'rankup[serving]'`. All replicas are processes on free ports of the loopback
interface, and clients ask the balancer 40 times a second. Then the manifest replica-pod.yaml is read, and its probes
are asked as a kubelet asks them, 20 times as fast. It takes a minute; --short takes a quarter of that, for the kill and
two ways to end.
"""

from __future__ import annotations

import copy
import importlib.util
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from balancer import Balancer, Load, Retry, ask_once, load
from pods import SPEED, Kubelet, problems, read
from servers import MissingError, Seen, Server, Servers, main, until

HERE = Path(__file__).parent
DRAIN = 2.0  # seconds; the balancer finds out in 0.75
PATIENCE = 120.0  # for a process to start on a busy machine


class Replicas:
    """Starts replicas, whose models come when they are told to."""

    def __init__(self, servers: Servers) -> None:
        self._servers, self._count = servers, 0

    def start(self, ending: str = "close", model: bool = True) -> Replica:
        self._count += 1
        replica = Replica(self._servers.folder, self._count)
        if model:
            replica.give()
        command = [
            sys.executable,
            str(HERE / "replica.py"),
            str(replica.port_file),
            str(replica.model),
            ending,
            str(DRAIN),
        ]
        replica.server = self._servers.start(f"replica-{self._count}", command)
        return replica


class Replica:
    """One replica's process and its files."""

    server: Server

    def __init__(self, folder: Path, number: int) -> None:
        self.port_file, self.model = folder / f"port-{number}", folder / f"model-{number}.npy"

    @property
    def port(self) -> int:
        return int(self.port_file.read_text())

    def port_or_none(self) -> int | None:
        return self.port if self.port_file.exists() else None

    def give(self) -> None:
        """Its model comes."""
        part = self.model.with_suffix(".part")
        with part.open("wb") as file:
            np.save(file, np.eye(2))
        part.rename(self.model)

    def status(self, path: str) -> int:
        port = self.port_or_none()
        return 0 if port is None else ask_once(port, "GET", path)

    def signal(self, number: signal.Signals) -> None:
        if self.server.process.poll() is None:
            self.server.signal(number)


def lab(servers: Servers, seen: Seen) -> None:
    """Readiness, a kill, three ways to end, and the manifest. Raises MissingError."""
    _needs()
    replicas = Replicas(servers)
    steady, late = replicas.start(), replicas.start(model=False)
    killed = [replicas.start() for _ in range(3)]
    ending = [replicas.start(how) for how in ("cut", "close", "drain", "close")]
    for each in (steady, *killed, *ending):
        until("a replica is ready", PATIENCE, lambda each=each: each.status("/ready") == 200)  # type: ignore[misc]
    until("a replica is alive", PATIENCE, lambda: late.status("/health") == 200)
    readiness(steady, late, seen)
    a_kill(steady, killed, seen)
    endings(steady, ending, seen)
    manifest(replicas, seen)


def short(servers: Servers, seen: Seen) -> None:
    """A kill, and two ways to end. Raises MissingError."""
    _needs()
    replicas = Replicas(servers)
    steady, *killed = (replicas.start() for _ in range(4))
    ending = {how: replicas.start(how) for how in ("close", "drain")}
    for each in (steady, *killed, *ending.values()):
        until("a replica is ready", PATIENCE, lambda each=each: each.status("/ready") == 200)  # type: ignore[misc]
    a_kill(steady, killed, seen)
    for how, replica in ending.items():
        an_ending(steady, how, replica, seen)


def _needs() -> None:
    for name in ("fastapi", "uvicorn"):
        if importlib.util.find_spec(name) is None:
            raise MissingError(f"{name} is not installed: pip install 'rankup[serving]'")


def readiness(steady: Replica, late: Replica, seen: Seen) -> None:
    """One replica has no model yet."""
    seen.row("a replica without its model: /health, /ready", f"{late.status('/health')}, {late.status('/ready')}")
    both = {"steady": steady.port, "late": late.port}
    for probes, words in ((False, "asks nobody whether it is ready"), (True, "asks /ready")):
        balancer = Balancer(both, probes=probes)
        found = load(balancer, [(0.0, lambda: None)], seconds=2.0) if not probes else load(balancer, (), seconds=2.0)
        seen.row(f"it loads, the balancer {words}", f"{found.errors()} of {len(found.asked)} requests got an error")
        seen.figures[f"loading, probes {probes}"] = found.errors()
    balancer = Balancer(both)
    found = load(balancer, [(1.0, late.give)], seconds=4.0)
    seen.row("its model comes: requests that it got, errors", f"{balancer.handed.get('late', 0)}, {found.errors()}")
    seen.figures.update(joined=balancer.handed.get("late", 0), joining_errors=found.errors())


def _told(found: Load) -> str:
    parts = [f"{found.errors(kind)} {kind}" for kind in ("cut", "refused", "no replica") if found.errors(kind)]
    if not found.errors():
        return f"0 of {len(found.asked)} requests got an error"
    return f"{found.errors()} of {len(found.asked)} got an error ({', '.join(parts)}), for {found.lasted:.2f} s"


def a_kill(steady: Replica, killed: list[Replica], seen: Seen) -> None:
    """SIGKILL under load; the balancer hands on nothing, what was refused, or all that failed."""
    ways: tuple[tuple[Retry, str], ...] = (
        ("nothing", "hands nothing on"), ("refused", "hands on what was refused"), ("all", "hands on all that failed"),
    )  # fmt: skip
    for (retry, words), victim in zip(ways, killed, strict=True):
        balancer = Balancer({"steady": steady.port, "victim": victim.port}, retry=retry)
        found = load(balancer, [(1.0, lambda victim=victim: victim.signal(signal.SIGKILL))])  # type: ignore[misc]
        seen.row(f"SIGKILL, the balancer {words}", _told(found))
        seen.figures.update({f"kill, {retry}: {kind}": found.errors(kind) for kind in ("cut", "refused")})
        seen.figures[f"kill, {retry}: seconds"] = found.lasted


ENDINGS = {
    "cut": "no handler: it ends at once", "close": "uvicorn alone: it closes at once",
    "drain": "not ready for 2 s, then it closes",
}  # fmt: skip


def an_ending(steady: Replica, how: str, replica: Replica, seen: Seen) -> None:
    """SIGTERM under load, in one of three ways."""
    balancer = Balancer({"steady": steady.port, "ending": replica.port})
    found = load(balancer, [(1.0, lambda: replica.signal(signal.SIGTERM))], 5.0)
    seen.row(f"SIGTERM, {ENDINGS[how]}", _told(found))
    seen.figures.update({f"{how}: {kind}": found.errors(kind) for kind in ("cut", "refused")})
    until("the replica has ended", PATIENCE, lambda: replica.server.process.poll() is not None)
    seen.figures[f"{how}: ended"] = int(replica.server.process.returncode)


def endings(steady: Replica, ending: list[Replica], seen: Seen) -> None:
    """SIGTERM under load, in three ways, and once as Kubernetes does it: first off the list, then SIGTERM."""
    for how, replica in zip(ENDINGS, ending, strict=False):
        an_ending(steady, how, replica, seen)
    last = ending[3]
    balancer = Balancer({"steady": steady.port, "ending": last.port})
    steps: list[tuple[float, Callable[[], Any]]] = [
        (1.0, lambda: balancer.removed.add("ending")), (1.5, lambda: last.signal(signal.SIGTERM)),
    ]  # fmt: skip
    found = load(balancer, steps)
    seen.row("off the balancer's list, then preStop, then SIGTERM to uvicorn alone", _told(found))
    seen.figures["preStop"] = found.errors()


def manifest(replicas: Replicas, seen: Seen) -> None:
    """The manifest as it is, and with its liveness probe at /ready."""
    pod = read(HERE / "replica-pod.yaml")
    seen.row("replica-pod.yaml: problems", "; ".join(problems(pod, longest=1.0)) or "none")
    wrong = copy.deepcopy(pod)
    container = wrong["spec"]["containers"][0]
    container["livenessProbe"]["httpGet"]["path"] = "/ready"
    seen.row("the same with livenessProbe at /ready: problems", "; ".join(problems(wrong)))
    late: list[Replica] = []

    def started(model: bool) -> Any:
        late.append(replicas.start(model=model))
        return late[-1].port_or_none, late[-1].signal

    kubelet = Kubelet(wrong, lambda: started(model=False))
    kubelet.until("it is restarted twice", PATIENCE, lambda: kubelet.restarts >= 2)
    late[-1].server.end()
    seen.row("livenessProbe at /ready, the model is late", f"{kubelet.restarts} restarts, and it was never ready")
    seen.figures.update({"wrong: restarts": kubelet.restarts, "wrong: ready": int("ready" in kubelet.events)})
    late.clear()
    right = Kubelet(pod, lambda: started(model=bool(late)))  # after a restart the model is there
    right.until("it is alive", PATIENCE, lambda: late[-1].status("/health") == 200)
    minute = time.monotonic() + 60 / SPEED  # of the manifest: livenessProbe could fail twice over
    right.until("a minute is over", PATIENCE, lambda: time.monotonic() > minute)
    before = right.restarts
    late[-1].give()
    right.until("it is ready", PATIENCE, lambda: right.ready)
    seen.row("as it is, the model is a minute late", f"{before} restarts, then {right.events[-1]}")
    right.events.clear()
    ask_once(late[-1].port, "POST", "/hang", patience=0.5)
    right.until("it is restarted and ready", PATIENCE, lambda: right.restarts > 0 and right.ready)
    seen.row("as it is, its event loop hangs", "; ".join(right.events))
    seen.figures.update(late_restarts=before, hung="; ".join(right.events), problems=len(problems(pod, longest=1.0)))


if __name__ == "__main__":
    others = [each for each in sys.argv[1:] if each != "--short"]
    sys.exit(main(lab if others == sys.argv[1:] else short, others))
