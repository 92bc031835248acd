"""What a kubelet makes of manifests, what the API refuses in them, and what is said of replicas; none is run."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from grader import kubelet
from grader.exercise import Draw
from grader.exercises.serve_replicas import cases, schema
from grader.kubelet import ANSWERS, HUNG, STARTING
from grader.lost import Lost
from grader.registry import find
from grader.trace.gantt import svg

IMAGE, PORT = "registry.example.com/model:1", 8017
Change = Callable[[Any], None]


def manifest() -> Any:
    """A right one for start_seconds=100, request_seconds=20, notice_seconds=15."""

    def probe(path: str, **more: int) -> Any:
        return {"httpGet": {"path": path, "port": "http"}, **more}

    container = {
        "name": "server", "image": IMAGE, "ports": [{"name": "http", "containerPort": PORT}],
        "startupProbe": probe("/health", periodSeconds=10, failureThreshold=10),
        "livenessProbe": probe("/health"), "readinessProbe": probe("/ready", periodSeconds=5),
        "lifecycle": {"preStop": {"sleep": {"seconds": 15}}},
        "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "2Gi", "cpu": 2}},
    }  # fmt: skip
    spec = {"terminationGracePeriodSeconds": 40, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a.b", "labels": {"app": "a"}}, "spec": spec}


def put(*path: Any, to: Any) -> Change:
    def change(pod: Any) -> None:
        for part in path[:-1]:
            pod = pod[part]
        pod[path[-1]] = to

    return change


def without(*path: Any) -> Change:
    def change(pod: Any) -> None:
        for part in path[:-1]:
            pod = pod[part]
        del pod[path[-1]]

    return change


def changed(*changes: Change) -> Any:
    found = manifest()
    for change in changes:
        change(found)
    return found


SERVER = ("spec", "containers", 0)
STARTUP, LIVE, READY = ((*SERVER, name) for name in kubelet.PROBES)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put(*SERVER, "resource", to={}), "has no field 'resource'. Did you mean resources?"),
        (put(*LIVE, "path", to="/health"), "livenessProbe has no field 'path'"),
        (put("spec", "livenessProbe", to={}), "spec has no field 'livenessProbe'. Look at the API reference"),
        (put(*READY, "periodSeconds", to="5"), "readinessProbe.periodSeconds is '5'. It must be a whole number."),
        (put(*READY, "periodSeconds", to=True), "It must be a whole number."),
        (put(*READY, "periodSeconds", to=0), "It must be at least 1."),
        (put(*LIVE, "successThreshold", to=2), "successThreshold is 2. Of a livenessProbe it must be 1."),
        (put(*LIVE, "httpGet", "path", to="health"), "A path begins with a slash."),
        (put(*LIVE, "httpGet", "port", to=0), "A port is a whole number from 1 to 65535."),
        (put(*LIVE, "httpGet", "port", to="8017"), "or the name of one of the container's ports"),
        (put(*LIVE, to={"exec": {"command": ["true"]}}), "Use httpGet, and nothing else."),
        (put(*LIVE, to={"httpGet": None}), "It must be a mapping."),
        (put("kind", to="pod"), "kind is 'pod'. A Pod has kind: Pod."),
        (put("apiVersion", to=1), "A Pod has apiVersion: v1."),
        (without("metadata"), "the manifest has no metadata"),
        (put("metadata", "name", to="A_b"), "metadata.name is 'A_b'."),
        (put("metadata", "labels", to={"a": 1}), "It must map strings to strings."),
        (put("spec", "restartPolicy", to="always"), "It is Always, OnFailure or Never."),
        (put("spec", "containers", to=[]), "a list with at least one container"),
        (put("spec", "containers", to={}), "a list with at least one container"),
        (put("spec", "terminationGracePeriodSeconds", to=-1), "It must be at least 0."),
        (put(*SERVER, "image", to="other"), "No containers have the image registry.example.com/model:1"),
        (put(*SERVER, "ports", 0, "containerPort", to=80), "The container has no containerPort 8017"),
        (put(*SERVER, "ports", to=None), "The container has no containerPort 8017"),
        (put(*SERVER, "ports", 0, "name", to="a-very-long-port-name"), "at most 15 characters"),
        (put(*SERVER, "ports", 0, "protocol", to="tcp"), "It is TCP, UDP or SCTP."),
        (put(*SERVER, "command", to="python serve.py"), "It must be a list of strings."),
        (put(*SERVER, "lifecycle", to={"prestop": {}}), "Did you mean preStop?"),
        (put(*SERVER, "lifecycle", "preStop", "exec", to={"command": ["sleep"]}), "has 2 actions"),
        (put(*SERVER, "lifecycle", "preStop", "sleep", to={}), "has no seconds"),
        (put(*SERVER, "lifecycle", "preStop", to={"exec": {"command": "sleep 5"}}), "one for each word"),
        (put(*SERVER, "resources", "limits", "memory", to="2 GB"), "It must be a quantity"),
        (put("spec", to="containers"), "It must be a mapping."),
    ],
)
def test_what_the_api_refuses_is_said(change: Change, says: str) -> None:
    assert schema.problems(manifest(), IMAGE, PORT) == []
    assert any(says in each for each in schema.problems(changed(change), IMAGE, PORT))


@pytest.mark.parametrize(
    "pod", [None, [], "Pod", {"spec": {"containers": [1, None]}}, {"metadata": 3, "spec": {"containers": 3}}]
)
def test_no_manifest_at_all_is_refused_and_raises_nothing(pod: Any) -> None:
    assert schema.problems(pod, IMAGE, PORT)
    with pytest.raises(ValueError, match="no "):
        kubelet.read(pod)


SLOW = [(0, STARTING), (100, "loading"), (400, "ready")]
HANGS = [(0, STARTING), (5, "ready"), (1000, HUNG)]
BROKEN = [(0, STARTING), (5, "unusable")]


def watched(pod: Any, phases: list[tuple[int, str]], seconds: int) -> kubelet.Watched:
    return kubelet.watch(kubelet.read(pod, IMAGE), phases, ANSWERS, seconds, PORT)


def killed(pod: Any, phases: list[tuple[int, str]], seconds: int = 1200) -> tuple[int, str] | None:
    found = watched(pod, phases, seconds).killed
    return found and (found[0], found[1].name)


def test_a_container_starts_slowly_and_gets_requests_when_it_is_ready() -> None:
    found = watched(manifest(), SLOW, 460)
    assert found.killed is None
    assert found.ready == [(400, True)]
    assert not any(name != "startupProbe" for at, name, _ in found.sent if at < 100)
    assert "svg" in svg(kubelet.chart(found))


@pytest.mark.parametrize(
    ("change", "when"),
    [
        (put(*STARTUP, "failureThreshold", to=9), (90, "startupProbe")),
        (without(*STARTUP), (30, "livenessProbe")),
        (put(*STARTUP, "httpGet", "path", to="/ready"), (100, "startupProbe")),
        (put(*LIVE, "httpGet", "path", to="/ready"), (130, "livenessProbe")),
        (put(*STARTUP, "httpGet", "port", to=80), (100, "startupProbe")),
        (put(*STARTUP, "httpGet", "scheme", to="HTTPS"), (100, "startupProbe")),
        (put(*STARTUP, "httpGet", "port", to="web"), (100, "startupProbe")),
        (put(*STARTUP, "initialDelaySeconds", to=5), None),
    ],
)
def test_what_does_not_give_it_time_kills_it(change: Change, when: tuple[int, str] | None) -> None:
    assert killed(changed(change), SLOW) == when


def test_a_liveness_probe_alone_that_begins_late_is_enough() -> None:
    assert killed(changed(without(*STARTUP), put(*LIVE, "initialDelaySeconds", to=95)), SLOW) is None


def test_what_hangs_is_killed_and_what_is_broken_is_not() -> None:
    assert killed(manifest(), HANGS) == (1021, "livenessProbe")  # of 1000, 1010, 1020, and a second until it is late
    assert killed(manifest(), BROKEN, 3600) is None
    assert killed(changed(put(*LIVE, "httpGet", "path", to="/ready")), BROKEN, 3600) == (40, "livenessProbe")
    assert killed(changed(without(*LIVE)), HANGS) is None


def test_readiness_counts_failures_and_successes() -> None:
    phases = [(0, "ready"), (100, "loading"), (200, "ready")]
    found = watched(changed(without(*STARTUP), put(*READY, "successThreshold", to=2)), phases, 300)
    assert found.ready == [(10, True), (110, False), (205, True)]
    assert watched(changed(without(*READY)), SLOW, 460).ready == [(100, True)]


@pytest.mark.parametrize(
    ("hook", "seconds"),
    [
        ({"sleep": {"seconds": 15}}, 15),
        ({"exec": {"command": ["sleep", "15"]}}, 15),
        ({"exec": {"command": ["/bin/sh", "-c", "sleep 15"]}}, 15),
        ({"exec": {"command": ["sh", "-c", "echo a; /bin/sleep 15; echo b"]}}, 15),
        ({"exec": {"command": ["sleep"]}}, 0),
        ({"exec": {"command": "sleep 15"}}, 0),
        ({"httpGet": {"path": "/drain", "port": 1}}, 0),
        ({"sleep": {"seconds": True}}, 0),
        ([], 0),
    ],
)
def test_how_long_pre_stop_sleeps(hook: Any, seconds: int) -> None:
    assert kubelet.read(changed(put(*SERVER, "lifecycle", "preStop", to=hook))).stop == seconds


def test_a_rehearsal_is_a_picture_and_says_how_it_ends() -> None:
    drawn = kubelet.rehearse(manifest(), 100, 300)
    assert "Not killed." in drawn.subtitle
    assert "Killed at second 30 by livenessProbe." in kubelet.rehearse(changed(without(*STARTUP)), 100, 300).subtitle
    assert "svg" in drawn._repr_svg_()


# ---- what is said of replicas


CASES = {(case.group, case.label): case for case in cases(Draw(1))}
JUDGES = {check.name: check.judge for check in find("serve_replicas").checks}


class Story:
    """What the harness would write down, event by event."""

    def __init__(self, case: Any, ends: list[Any]) -> None:
        self.plan, self.at = case.expected, 0
        self.told: dict[str, Any] = {"asks": [], "events": [], "stopped": None, "ends": ends}

    def event(self, what: str, replica: int = 0) -> None:
        self.told["events"].append({"what": what, "replica": replica, "at": self.at})
        self.at += 1

    def ask(
        self, stage: str, path: str, status: int | None = 200, body: int = -1, replica: int = 0, **more: Any
    ) -> Any:
        said = json.dumps({"predictions": self.plan.asks[body].right.tolist()}) if body >= 0 and status == 200 else ""
        found = {"stage": stage, "path": path, "status": status, "body": body, "replica": replica, "said": said,
                 "error": "", "begin": self.at, "end": self.at + 1, **more}  # fmt: skip
        self.at += 2
        self.told["asks"].append(found)
        return found


ENDED = {
    "event": "raised",
    "type": "",
    "text": "its process ended with exit status 0 before the call returned",
    "why": "ended",
}


def drained(case: Any) -> dict[str, Any]:
    story = Story(case, [ENDED])
    story.event("begins")
    if case.label.endswith("loads"):
        story.event("at load")
        story.ask("early", "/health")
    else:
        story.ask("until ready", "/ready")
        story.ask("before", "/predict", body=0)
    if case.label.endswith("in flight"):
        held = [story.ask("held", "/predict", body=number) for number in (1, 2)]
        story.event("held")
        story.event("SIGTERM")
        story.ask("draining", "/ready", 503)
        story.ask("late", "/predict", 503, body=3)
        story.ask("draining", "/health")
        story.event("open model")
        for each in held:
            each["end"] = story.at
            story.at += 1
    else:
        story.event("SIGTERM")
    story.event("gone")
    return story.told


def bench(group: str, tell: Callable[[Any], dict[str, Any]], change: Callable[[Any], Any]) -> Any:
    def calls(asked: str) -> Any:
        found = [case for case in CASES.values() if case.group == asked == group]
        for case in found:
            told = copy.deepcopy(tell(case))
            if case is found[0]:
                change(told)
            yield case, SimpleNamespace(returned=(told,))

    return SimpleNamespace(calls=calls, program=SimpleNamespace(file="a.py", source="import os\n\nos.abort()\n"))


def asked(stage: str, **changes: Any) -> Callable[[Any], Any]:
    return lambda told: next(each for each in told["asks"] if each["stage"] == stage).update(changes)


def ends(**changes: Any) -> Callable[[Any], Any]:
    return lambda told: told.update(ends=[{**ENDED, **changes}])


def stopped(why: str) -> Callable[[Any], Any]:
    return lambda told: told.update(stopped={"why": why, "replica": 0, "at": 3})


def test_a_replica_that_drains_is_right_and_drawn() -> None:
    pytest.importorskip("fastapi")
    drawn: Any = JUDGES["drain"](bench("drain", drained, lambda told: None))
    assert "svg" in svg(drawn)
    assert {bar.became for bar in drawn.bars} == {"done", "still"}


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        (asked("draining", status=200), "wrong_result", "GET /ready got status 200 after SIGTERM, while 2 requests"),
        (asked("draining", status=None, error="refused"), "wrong_result", "Go on listening until the last request"),
        (asked("draining", status=None, end=None), "timeout", "must not wait for requests"),
        (
            lambda told: next(each for each in told["asks"] if each["path"] == "/health").update(status=503),
            "wrong_result",
            "GET /health got status 503 after SIGTERM",
        ),
        (asked("late", status=200), "wrong_result", "request 3 (POST /predict) was sent after SIGTERM and"),
        (asked("late", status=None, end=None), "timeout", "takes new requests while it ends"),
        (asked("held", status=None, error="reset"), "crash", "Finish what is in flight before you end"),
        (asked("held", end=0), "wrong_result", "while every call of a torch.nn.Module was held"),
        (lambda told: told["events"].pop(), "timeout", "did not end after SIGTERM. Its last request was answered"),
        (ends(text="its process was killed by SIGTERM before"), "crash", "uvicorn's own handler raises SIGTERM again"),
        (ends(text="its process ended with exit status 3 before"), "crash", "it ended with exit status 3 instead"),
        (ends(event="returned"), "crash", "it ended in a way of its own instead of exit status 0"),
        (ends(type="ValueError", text="no", line=3), "crash", "serve_replica() raised ValueError: no instead"),
        (stopped("never ready"), "timeout", "the replica was never ready"),
        (stopped("ended"), "crash", "ended before it was ready"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_end_is_said(change: Any, kind: str, says: str) -> None:
    pytest.importorskip("fastapi")
    with pytest.raises(Lost) as lost:
        JUDGES["drain"](bench("drain", drained, change))
    assert lost.value.diagnosis.kind == kind
    assert says in lost.value.diagnosis.message
    assert "svg" in svg(lost.value.picture)


def podded(pod: Any) -> Callable[[Any], dict[str, Any]]:
    def tell(case: Any) -> dict[str, Any]:
        found = copy.deepcopy(pod)
        facts = case.expected
        container = found["spec"]["containers"][0]
        container["image"], container["ports"][0]["containerPort"] = facts.image, facts.port
        return {"pod": json.dumps(found), "event": None}

    return tell


def test_an_end_needs_time_before_sigterm_and_after_it() -> None:
    facts = next(case.expected for case in CASES.values() if case.group == "manifest")
    with pytest.raises(Lost, match=r"there is no preStop that sleeps\. SIGTERM comes at second 0"):
        JUDGES["grace"](bench("manifest", podded(changed(without(*SERVER, "lifecycle"))), lambda told: None))
    with pytest.raises(Lost, match=f"at least {15 + facts.request}") as lost:
        JUDGES["grace"](bench("manifest", podded(manifest()), lambda told: None))
    assert lost.value.diagnosis.kind == "lost_or_duplicated"
    assert "svg" in svg(lost.value.picture)


def test_what_pod_does_not_return_is_said() -> None:
    event = {"type": "TypeError", "text": "pod() returned a str instead of a dict", "line": None}
    with pytest.raises(Lost, match="pod\\(\\) returned a str instead of a dict"):
        JUDGES["manifest"](bench("manifest", podded(manifest()), lambda told: told.update(event=event)))
