"""Two replicas behind a balancer, and a Pod's manifest: what the lab says of them, and what its checks find."""

from __future__ import annotations

import asyncio
import copy
import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import labs
import pytest
from often import on_day

LAB = labs.FOLDER / "replicas.py"


@pytest.fixture(scope="module")
def modules() -> Iterator[tuple[Any, Any]]:
    """balancer and pods, which lie beside the lab."""
    sys.path.insert(0, str(labs.FOLDER))
    try:
        import balancer
        import pods

        yield balancer, pods
    finally:
        sys.path.remove(str(labs.FOLDER))
        for name in ("balancer", "pods", "servers"):
            sys.modules.pop(name, None)


@pytest.fixture
def pod(modules: tuple[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = modules[1].read(labs.FOLDER / "replica-pod.yaml")
    return found


def _set(*path: Any, to: Any) -> Callable[[Any], None]:
    def change(pod: Any) -> None:
        for part in path[:-1]:
            pod = pod[part]
        pod[path[-1]] = to

    return change


SERVER = ("spec", "containers", 0)
LIVE, READY = (*SERVER, "livenessProbe"), (*SERVER, "readinessProbe")
WRONG = {
    "a misspelt field": (_set(*SERVER, "livenesProbe", to={}), "livenesProbe"),
    "seconds as text": (_set(*READY, "periodSeconds", to="5"), "periodSeconds"),
    "a path without its slash": (_set(*LIVE, "httpGet", "path", to="health"), "path"),
    "a liveness probe that must succeed twice": (_set(*LIVE, "successThreshold", to=2), "successThreshold"),
    "another kind": (_set("kind", to="pod"), "kind"),
    "a port that is none of its own": (_set(*LIVE, "httpGet", "port", to="https"), "asks port https"),
    "liveness at /ready": (_set(*LIVE, "httpGet", "path", to="/ready"), "asks what readinessProbe asks"),
    "no time to end": (_set("spec", "terminationGracePeriodSeconds", to=5), "SIGKILL comes after 5 s"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_manifest(
    change: Callable[[Any], None], said: str, modules: tuple[Any, Any], pod: dict[str, Any]
) -> None:
    assert modules[1].problems(pod, longest=1.0) == []
    wrong = copy.deepcopy(pod)
    change(wrong)
    [problem] = modules[1].problems(wrong, longest=1.0)
    assert said in problem


class Fake:
    """A process of nobody's, whose probes answer what they are told to."""

    def __init__(self) -> None:
        self.started, self.killed = 0, list[signal.Signals]()
        self.answers = {"/health": 200, "/ready": 200}

    def start(self) -> tuple[Callable[[], int], Callable[[signal.Signals], None]]:
        self.started += 1
        return lambda: 1, self.killed.append


@pytest.fixture
def fake(modules: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> Fake:
    found = Fake()
    monkeypatch.setattr(modules[1], "ask_once", lambda port, method, path, patience: found.answers[path])
    monkeypatch.setattr(modules[1], "SPEED", 1e6)  # everything is due at once
    return found


def test_a_replica_that_is_not_ready_gets_no_requests_and_is_not_killed(
    fake: Fake, modules: tuple[Any, Any], pod: dict[str, Any]
) -> None:
    kubelet = modules[1].Kubelet(pod, fake.start)
    kubelet.until("ready", 5, lambda: kubelet.ready)
    fake.answers["/ready"] = 503
    kubelet.until("not ready", 5, lambda: not kubelet.ready)
    assert kubelet.events == ["ready", "not ready"]
    assert (fake.started, fake.killed) == (1, [])


def test_a_replica_that_is_not_alive_is_killed_and_started_again(
    fake: Fake, modules: tuple[Any, Any], pod: dict[str, Any]
) -> None:
    kubelet = modules[1].Kubelet(pod, fake.start)
    kubelet.until("ready", 5, lambda: kubelet.ready)
    fake.answers["/health"] = 0
    kubelet.until("killed", 5, lambda: kubelet.restarts > 0)
    assert (fake.started, fake.killed) == (2, [signal.SIGKILL])
    assert kubelet.events[-1] == "killed, because livenessProbe failed 3 times in a row"
    assert not kubelet.ready


def test_while_it_starts_only_the_startup_probe_is_asked(
    fake: Fake, modules: tuple[Any, Any], pod: dict[str, Any]
) -> None:
    fake.answers["/health"] = 0
    kubelet = modules[1].Kubelet(pod, fake.start)
    for _ in range(29):
        kubelet.step()
    assert (kubelet.events, kubelet.ready) == ([], False)
    kubelet.until("killed", 5, lambda: kubelet.restarts > 0)
    assert kubelet.events == ["killed, because startupProbe failed 30 times in a row"]


def test_a_port_where_nobody_listens_refuses_and_a_connection_that_ends_is_cut(modules: tuple[Any, Any]) -> None:
    balancer = modules[0]

    async def both() -> None:
        async def hangs_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_server(hangs_up, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(balancer.CutError):
            await balancer.ask(port, "GET", "/")
        server.close()
        await server.wait_closed()
        with pytest.raises(balancer.RefusedError):
            await balancer.ask(port, "GET", "/")

    asyncio.run(both())


@on_day(1)
def test_who_gets_an_error_when_a_replica_is_late_killed_or_ended() -> None:
    figures = json.loads(labs.run_or_skip(LAB, "--json", seconds=280))["figures"]
    assert figures["loading, probes False"] > 0
    assert figures["loading, probes True"] == figures["joining_errors"] == 0
    assert figures["joined"] > 0
    assert figures["kill, nothing: refused"] > 0
    assert figures["kill, refused: refused"] == figures["kill, all: refused"] == figures["kill, all: cut"] == 0
    assert figures["cut: refused"] > 0
    assert figures["close: refused"] > 0
    assert figures["drain: refused"] == figures["drain: cut"] == figures["preStop"] == 0
    assert figures["cut: ended"] == -signal.SIGTERM
    assert figures["drain: ended"] == 0
    assert figures["wrong: restarts"] == 2
    assert figures["wrong: ready"] == figures["late_restarts"] == figures["problems"] == 0
    assert figures["hung"].endswith("killed, because livenessProbe failed 3 times in a row; ready")


@on_day(1)
@pytest.mark.parametrize("number", labs.BY_TERMINATION, ids=lambda number: number.name)
def test_a_lab_that_is_ended_leaves_no_replica(number: signal.Signals) -> None:
    labs.kill_once_started(LAB, number, "python")


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    assert labs.without_programs(LAB, tmp_path, "--unknown").returncode == 2
