"""Judges manifests: against the API's schema, by what a kubelet makes of their probes, and by how their Pods end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from grader import kubelet, tally
from grader.exercises.serve_checkpoint.answering import short
from grader.exercises.serve_replicas import schema
from grader.exercises.serve_replicas.asked import Facts, Told, came, of
from grader.exercises.serve_replicas.judging import installed
from grader.kubelet import HUNG, LIVENESS, READINESS, STARTING, Pod, Probe, Watched
from grader.lost import Lost
from grader.ranks.blame import Source
from grader.trace.gantt import Bar, Chart
from grader.verdict import Diagnosis, Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

SOON = 60  # seconds in which a kubelet must act on what a process says, or does not say
LONG = 3600
OFTEN = f"Requests must come within {SOON} s after the replica is ready. Probe more often, whatever load_seconds is."


def _lost(
    bench: RankBench, case: Case, kind: Kind, message: str, expected: str, got: str, picture: Chart | None = None,
    line: int | None = None,
) -> Lost:  # fmt: skip
    where = Source(bench.program.file, bench.program.source).quote(line)
    text = f"With {case.expected.label}: {message}"
    text = f"{text.rstrip('.')}{where}." if where else text
    if picture is not None:
        picture.title = short(message, 105)
    return Lost(Diagnosis(kind, text, None, bench.program.file, line, expected, got), picture)


def _pods(bench: RankBench, group: str) -> Iterator[tuple[Case, Facts, Told, Any]]:
    """Each manifest of a group. Raises Lost where pod() returned none."""
    for case, result in bench.calls(group):
        told = result.returned[0]
        event = told["event"]
        if event is not None:
            name = f"{short(event.get('type'))}: {short(event.get('text'))}".strip(": ")
            line = event.get("line") if isinstance(event.get("line"), int) else None
            stuck = event.get("why") == "stuck"
            what = name.removeprefix("TypeError: ") if "pod() returned" in name else f"pod() raised {name}"
            kind: Kind = "timeout" if stuck else "wrong_result" if "pod() returned" in name else "crash"
            raise _lost(bench, case, kind, what, "a manifest", "none", line=line)
        yield case, case.expected, told, json.loads(told["pod"])


def _read(bench: RankBench, case: Case, pod: Any) -> Pod:
    try:
        return kubelet.read(pod, case.expected.image)
    except ValueError as error:
        message = f"Not judged, because the manifest cannot be read: {error}. The check manifest says more."
        raise _lost(bench, case, "wrong_result", message, "a Pod", short(error, 60)) from None


def manifest(bench: RankBench) -> Chart | None:
    """By the schema, and for the image and the port that were given; and no later call changes it."""
    for case, facts, told, pod in _pods(bench, "manifest"):
        found = schema.problems(pod, facts.image, facts.port)
        if found:
            more = f" {len(found) - 1} more: {found[1]}" if len(found) > 1 else ""
            raise _lost(bench, case, "wrong_result", f"{found[0]}{more}", "a valid Pod", short(found[0], 80))
        changed = _changed(pod, json.loads(told.get("after") or told["pod"]))
        if changed:
            message = (
                "pod() was called once more, with other arguments, and this changed the manifest that the first call had "
                f"returned: {changed}. Build a new dict in each call. If all calls share a template, use copy.deepcopy on it."
            )
            raise _lost(bench, case, "wrong_result", message, "the manifest as it was returned", short(changed, 80))
    return None


def _changed(was: Any, now: Any, where: str = "") -> str:
    """The first place where two manifests differ, in words; "" where there is none."""
    if was == now:
        return ""
    pairs: list[tuple[Any, Any, str]] = []
    if isinstance(was, dict) and isinstance(now, dict):
        pairs = [(was.get(key), now.get(key), f"{where}.{key}".lstrip(".")) for key in {**was, **now}]
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        pairs = [(one, two, f"{where}[{at}]") for at, (one, two) in enumerate(zip(was, now, strict=True))]
    inside = next((found for pair in pairs if (found := _changed(*pair))), "")
    return inside or f"{where or 'it'} was {short(repr(was), 60)} and is now {short(repr(now), 60)}"


def probes(bench: RankBench) -> Chart:
    """A kubelet acts on the manifest, and its probes find what the running process really answers."""
    installed()
    drawn: Chart | None = None
    for case, facts, told, pod in _pods(bench, "probes"):
        read, port = _read(bench, case, pod), told["port"]
        answers = {(each["path"], state): each["status"] for run, states in (("whole", ("loading", "ready")),
                   ("broken", ("unusable",))) for state in states for each in of(told[run], state)}  # fmt: skip
        stopped = told["whole"]["stopped"]
        if stopped is not None:
            first = next((came(each) for each in told["whole"]["asks"] if each["stage"] == "until ready"), "no answer")
            message = f"Not judged, because the replica itself was never ready ({first}). The check ready says more."
            raise _lost(bench, case, "wrong_result", message, "a replica that becomes ready", first)
        drawn = _begins(bench, case, facts, read, answers, port)
        _unusable(bench, case, read, answers, port)
        _hangs(bench, case, read, answers, port)
    assert drawn is not None
    return drawn


def _why(read: Pod, found: Watched, answers: kubelet.Answers, port: int, state: str) -> str:
    """What the probe that killed was answered in a state."""
    assert found.killed is not None
    probe = found.killed[1]
    if probe.port != port:
        return "it asks a port at which nobody listens"
    if state == STARTING:
        return "nobody listened yet"
    status = answers.get((probe.path, state))
    return f"{probe.path} answered {status}" if status is not None else f"{probe.path} was not answered"


def _remedy(probe: Probe, port: int, state: str) -> str:
    """What to do about a probe that kills a container which starts."""
    if probe.port != port:
        return "Ask the port that pod() was called with."
    if state == STARTING and probe.name == LIVENESS:
        return "Give it time with a startupProbe."
    if state == STARTING:
        return "Let failureThreshold times periodSeconds be at least start_seconds."
    if probe.path == "/health":
        return "/health must say 200 then; the check live says more."
    return "Ask /health in that probe."


def _state(found: Watched, second: int) -> str:
    return [state for begin, state in found.phases if begin <= second][-1]


def _begins(
    bench: RankBench, case: Case, facts: Facts, read: Pod, answers: kubelet.Answers, port: int
) -> Chart:  # fmt: skip
    ready = facts.start + facts.load
    phases = [(0, STARTING), (facts.start, "loading"), (ready, "ready")]
    found = kubelet.watch(read, phases, answers, ready + SOON, port)
    picture = kubelet.chart(
        found, subtitle=f"Virtual seconds. It listens at second {facts.start}, and is ready at second {ready}."
    )
    if found.killed is not None:
        second, probe = found.killed
        state = _state(found, second)
        message = (
            f"The kubelet kills the container at second {second}, because {probe.told} failed: "
            f"{_why(read, found, answers, port, state)}. The container listens at second {facts.start} and is ready at "
            f"second {ready}. It is killed like this after each start. "
        )
        message += _remedy(probe, port, state)
        raise _lost(bench, case, "not_available", message, "no kill", f"killed at second {second}", picture)
    early = next((at for at, value in found.ready if value and at < ready), None)
    if early is not None:
        asks = read.probes.get(READINESS)
        why = (
            "there is no readinessProbe"
            if asks is None
            else f"{asks.path} answers {answers.get((asks.path, _state(found, early)))}"
        )
        message = (
            f"Requests are sent to the Pod from second {early} on, because {why}. The model can answer from second {ready} "
            "on. Ask /ready in the readinessProbe."
        )
        raise _lost(
            bench, case, "wrong_result", message, f"no request before second {ready}", f"second {early}", picture
        )
    if not found.readiness(ready + SOON):
        probe = read.probes[READINESS]
        what = "a port at which nobody listens" if probe.port != port else f"{probe.path}, every {probe.period} s"
        message = (
            f"The model can answer from second {ready} on, and at second {ready + SOON} no request is sent to the Pod yet. "
            f"Its readinessProbe asks {what}."
        )
        if probe.port == port and probe.period * probe.successes > SOON:
            message += f" {OFTEN}"
        raise _lost(bench, case, "too_slow", message, f"ready by second {ready + SOON}", "not ready", picture)
    _sooner(bench, case, facts, read, answers, port)
    tally.note("seconds until requests are sent", found.ready[-1][0] - ready, SOON, "s")
    return picture


def _sooner(
    bench: RankBench, case: Case, facts: Facts, read: Pod, answers: kubelet.Answers, port: int
) -> None:  # fmt: skip
    """A replica may be ready sooner than it is at the latest: at once, or anywhere between two probes."""
    probe = read.probes[READINESS]
    between = range(1, min(probe.period, facts.load)) if probe.period * probe.successes > SOON else ()
    for load in (1, *(facts.load - sooner for sooner in between)):
        ready = facts.start + load
        phases = [(0, STARTING), (facts.start, "loading"), (ready, "ready")]
        if kubelet.watch(read, phases, answers, ready + SOON, port).readiness(ready + SOON):
            continue
        delay = f" after an initialDelaySeconds of {probe.delay}" if probe.delay else ""
        message = (
            f"If the model is loaded after {load} s, it can answer from second {ready} on, and at second {ready + SOON} no "
            f"request is sent to the Pod yet. Its readinessProbe asks {probe.path} every {probe.period} s{delay}. "
        )
        message += "load_seconds is the most that loading takes. Probe often, from the beginning." if delay else OFTEN
        raise _lost(bench, case, "too_slow", message, f"ready by second {ready + SOON}", "not ready")


def _unusable(bench: RankBench, case: Case, read: Pod, answers: kubelet.Answers, port: int) -> None:
    phases = [(0, STARTING), (5, "unusable")]
    found = kubelet.watch(read, phases, answers, LONG, port)
    picture = kubelet.chart(found, subtitle="Virtual seconds. Half of the checkpoint's file is missing.")
    if found.killed is not None:
        second, probe = found.killed
        todo = "Ask /health in that probe."
        if probe.path == "/health":
            todo = "The process must live, and say 200 at /health; the check ready says more."
        message = (
            f"Half of the checkpoint is missing, so the replica must live and not be ready. The kubelet kills it at second "
            f"{second}, because {probe.told} failed: {_why(read, found, answers, port, 'unusable')}. A new process reads "
            f"the same file, and is killed again. {todo}"
        )
        raise _lost(bench, case, "wrong_result", message, "no kill in an hour", f"killed at second {second}", picture)


def _hangs(bench: RankBench, case: Case, read: Pod, answers: kubelet.Answers, port: int) -> None:
    alive = read.probes.get(LIVENESS)
    phases = [(0, STARTING), (5, "loading"), (10, "ready")]
    sent = [at for at, name, _ in kubelet.watch(read, phases, answers, LONG, port).sent if name == LIVENESS]
    hangs = 1 + (sent[-1] if sent else LONG)  # right after a probe, so that it takes longest to notice
    most = SOON + (alive.timeout if alive else 0)
    found = kubelet.watch(read, [*phases, (hangs, HUNG)], answers, hangs + most, port)
    slow = alive is not None and alive.failures * alive.period > SOON
    if found.killed is None or (slow and found.killed[1].name == LIVENESS and found.killed[0] > hangs):
        why = "There is no livenessProbe." if alive is None else f"It has {alive.told}."
        message = (
            f"From second {hangs} on the process answers nothing, and at second {hangs + SOON} it is still not killed. {why} "
            f"Let failureThreshold times periodSeconds of a livenessProbe be at most {SOON} s."
        )
        raise _lost(bench, case, "not_available", message, f"killed within {SOON} s", "not killed", None)
    if found.killed[0] <= hangs:
        second, probe = found.killed
        message = f"The kubelet kills a replica that is ready, at second {second}, because {probe.told} failed."
        raise _lost(bench, case, "not_available", message, "no kill", f"killed at second {second}", None)
    if read.restart != "Always":
        after = ""
        if read.restart == "OnFailure":
            after = " if it ends with exit status 0, which it does after SIGTERM"
        message = (
            f"The process answers nothing, and the kubelet kills it. With restartPolicy {read.restart} it is not started "
            f"again{after}. A server needs Always, the default."
        )
        raise _lost(bench, case, "not_available", message, "Always", read.restart, None)
    tally.note("seconds until a hung process is killed", found.killed[0] - hangs, most, "s")


def grace(bench: RankBench) -> Chart:
    """preStop lasts until balancers know, and the grace period longer than that and the longest request together."""
    drawn: Chart | None = None
    for case, facts, _, pod in _pods(bench, "manifest"):
        read = _read(bench, case, pod)
        drawn = _ends(facts, read)
        if read.stop < facts.notice:
            sleeps = f"preStop sleeps {read.stop} s" if read.stop else "there is no preStop that sleeps"
            message = (
                f"A balancer may send requests for {facts.notice} s after the Pod is told to end, and {sleeps}. SIGTERM comes "
                f"at second {read.stop}, and from then on the replica refuses requests. Let preStop sleep {facts.notice} s."
            )
            raise _lost(
                bench, case, "lost_or_duplicated", message, f"at least {facts.notice} s", f"{read.stop} s", drawn
            )
        needed = read.stop + facts.request
        if read.grace < needed:
            message = (
                f"SIGKILL comes {read.grace} s after the Pod is told to end. preStop takes {read.stop} s of them, and a request "
                f"up to {facts.request} s. Such a request is lost. Make terminationGracePeriodSeconds at least {needed}."
            )
            raise _lost(bench, case, "lost_or_duplicated", message, f"at least {needed} s", f"{read.grace} s", drawn)
    assert drawn is not None
    return drawn


def _ends(facts: Facts, read: Pod) -> Chart:
    """The end of a Pod: what balancers send, preStop, and the longest request, until SIGKILL."""
    picture = Chart(
        ("balancers", "preStop", "last request"), subtitle="Virtual seconds since the Pod was told to end.",
        words={"done": "answered", "again": "still sends requests", "failed": "refused, or cut off", "died": "", "still": "sleeps"},
        cross="SIGKILL", lines=False,
    )  # fmt: skip
    picture.bars.append(Bar("balancers", 0, min(read.stop, facts.notice), "still send requests", "again"))
    if facts.notice > read.stop:
        picture.bars.append(Bar("balancers", read.stop, facts.notice, "refused", "failed"))
    if read.stop:
        picture.bars.append(Bar("preStop", 0, read.stop, "sleeps, then SIGTERM", "still"))
    begin, end = read.stop, read.stop + facts.request
    picture.bars.append(
        Bar(
            "last request",
            begin,
            min(end, max(read.grace, begin)),
            "in flight",
            "done" if end <= read.grace else "failed",
        )
    )
    picture.end = float(max(end, read.grace, facts.notice, 1))
    picture.gone = {"last request": float(read.grace)}
    return picture
