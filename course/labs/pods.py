"""A Pod's manifest, held against the API's schema and against the process that runs: what its probes really do.

The schema is the part of `Pod` (v1) that the manifest uses, as the Kubernetes API reference has it: nothing else may
stand there, as with `kubectl apply --validate=strict`. `Kubelet` acts on the probes as a kubelet does, only faster.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from balancer import ask_once
from jsonschema import Draft202012Validator
from servers import until

SPEED = 20  # a second of the manifest is 1/20 of one here, but for a probe's timeout
Json = dict[str, Any]


def _count(least: int) -> Json:
    return {"type": "integer", "minimum": least}


def _object(required: str, **parts: Json) -> Json:
    return {"type": "object", "required": required.split(), "properties": parts, "additionalProperties": False}


_TEXTS: Json = {"type": "object", "additionalProperties": {"type": "string"}}
_NAME: Json = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
_PORT: Json = {
    "anyOf": [{"type": "integer", "minimum": 1, "maximum": 65535}, {"type": "string", "pattern": "^[a-z0-9-]{1,15}$"}]
}


def _probe(successes: Json) -> Json:
    return _object(
        "httpGet", httpGet=_object("port", path={"type": "string", "pattern": "^/"}, port=_PORT),
        initialDelaySeconds=_count(0), periodSeconds=_count(1), timeoutSeconds=_count(1), failureThreshold=_count(1),
        successThreshold=successes,
    )  # fmt: skip


_ONCE: Json = {"const": 1}  # liveness and startup probes have no other threshold
_CONTAINER = _object(
    "name image", name=_NAME, image={"type": "string", "minLength": 1},
    args={"type": "array", "items": {"type": "string"}}, command={"type": "array", "items": {"type": "string"}},
    ports={"type": "array", "items": _object("containerPort", name=_PORT, containerPort=_PORT)},
    startupProbe=_probe(_ONCE), livenessProbe=_probe(_ONCE), readinessProbe=_probe(_count(1)),
    lifecycle=_object("", preStop=_object("", sleep=_object("seconds", seconds=_count(0)))),
    resources=_object("", requests=_TEXTS, limits=_TEXTS),
)  # fmt: skip
SCHEMA = _object(
    "apiVersion kind metadata spec", apiVersion={"const": "v1"}, kind={"const": "Pod"},
    metadata=_object("name", name=_NAME, namespace=_NAME, labels=_TEXTS, annotations=_TEXTS),
    spec=_object("containers", terminationGracePeriodSeconds=_count(0),
                 containers={"type": "array", "minItems": 1, "items": _CONTAINER}),
)  # fmt: skip


def read(path: Path) -> Json:
    found: Json = yaml.safe_load(path.read_text())
    return found


def problems(pod: Json, longest: float = 0.0) -> list[str]:
    """What is wrong with a manifest: by the schema, and by what its parts mean together.

    `longest` is how many seconds a request may take.
    """
    errors = sorted(
        Draft202012Validator(SCHEMA).iter_errors(pod), key=lambda error: list(map(str, error.absolute_path))
    )
    if errors:
        return [f"{'.'.join(map(str, error.absolute_path)) or 'the manifest'}: {error.message}" for error in errors]
    found = []
    for container in pod["spec"]["containers"]:
        named = {port.get("name"): port["containerPort"] for port in container.get("ports", [])}
        probes = {
            name: container[name] for name in ("startupProbe", "livenessProbe", "readinessProbe") if name in container
        }
        for name, probe in probes.items():
            port = probe["httpGet"]["port"]
            if port not in named and port not in named.values():
                found.append(f"{name} asks port {port}, which no port of the container is")
        asked = {name: probe["httpGet"].get("path", "/") for name, probe in probes.items()}
        if "readinessProbe" not in asked:
            found.append("no readinessProbe: requests come as soon as the process is there")
        elif asked.get("livenessProbe") == asked["readinessProbe"]:
            found.append("livenessProbe asks what readinessProbe asks: a replica that is not ready is killed")
        stop = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        grace = pod["spec"].get("terminationGracePeriodSeconds", 30)
        if grace < stop + longest:
            found.append(f"SIGKILL comes after {grace} s, but preStop takes {stop} s and a request up to {longest:g} s")
    return found


@dataclass
class Kubelet:
    """Runs the manifest's first container as a process of ours, and acts on its probes whenever `step` is called.

    `start` starts the process and returns a function that gives its port (None until it has one) and one that sends
    it a signal. What happens is in `events`, as words.
    """

    pod: Json
    start: Callable[[], tuple[Callable[[], int | None], Callable[[signal.Signals], None]]]
    events: list[str] = field(default_factory=list)
    ready: bool = False

    def __post_init__(self) -> None:
        self._container: Json = self.pod["spec"]["containers"][0]
        self._begin()

    def _begin(self) -> None:
        self._port, self._kill = self.start()
        self.ready = False
        self._watch("startupProbe" if "startupProbe" in self._container else "livenessProbe", "readinessProbe")

    def _watch(self, *probes: str) -> None:
        """Ask these from now on; while the startup probe has not succeeded, no other one is asked."""
        asked = probes[:1] if probes[0] == "startupProbe" else probes
        now = time.monotonic()
        self._due = {name: now + self._of(name, "initialDelaySeconds", 0) / SPEED for name in asked if self._has(name)}
        self._bad = dict.fromkeys(self._due, 0)

    def _has(self, name: str) -> bool:
        return name in self._container

    def _of(self, name: str, setting: str, default: int) -> int:
        return int(self._container[name].get(setting, default))

    @property
    def restarts(self) -> int:
        return sum(event.startswith("killed") for event in self.events)

    def step(self) -> None:
        """Ask what is due, and act on it."""
        for name in list(self._due):
            if time.monotonic() < self._due[name]:
                continue
            self._due[name] = time.monotonic() + self._of(name, "periodSeconds", 10) / SPEED
            good = self._asked(self._container[name])
            self._bad[name] = 0 if good else self._bad[name] + 1
            failed = self._bad[name] >= self._of(name, "failureThreshold", 3)
            if name == "readinessProbe" and (good or failed) and good != self.ready:
                self.ready = good
                self.events.append("ready" if good else "not ready")
            elif name == "startupProbe" and good:
                return self._watch("livenessProbe", "readinessProbe")
            elif name != "readinessProbe" and failed:
                self.events.append(f"killed, because {name} failed {self._bad[name]} times in a row")
                self._kill(signal.SIGKILL)
                return self._begin()
        return None

    def _asked(self, probe: Json) -> bool:
        port = self._port()
        path, patience = probe["httpGet"].get("path", "/"), probe.get("timeoutSeconds", 1)
        return port is not None and 200 <= ask_once(port, "GET", path, patience=patience) < 400

    def until(self, what: str, seconds: float, condition: Callable[[], bool]) -> None:
        """Act until the condition holds. Raises TimeoutError."""

        def held() -> bool:
            self.step()
            return condition()

        until(what, seconds, held)
