"""What a kubelet makes of a Pod's manifest, in virtual seconds: which probe it sends when, and what it does then.

It needs no cluster: its caller says how the process answers each path in each of its states. It counts as Kubernetes'
documentation does ("Configure Liveness, Readiness and Startup Probes"): a probe is sent initialDelaySeconds and one
period after its beginning, and every period from there on; failureThreshold failures in a row have a consequence.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.trace.gantt import Bar, Became, Chart

STARTUP, LIVENESS, READINESS = "startupProbe", "livenessProbe", "readinessProbe"
PROBES = (STARTUP, LIVENESS, READINESS)
DEFAULTS = {
    "initialDelaySeconds": 0, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3, "successThreshold": 1,
}  # fmt: skip
GRACE = 30  # terminationGracePeriodSeconds, where a manifest does not say
HUNG, STARTING = "hung", "starting"  # states in which nobody answers: too late, and not at all
Answers = Mapping[tuple[str, str], int | None]  # (path, state): status


@dataclass(frozen=True)
class Probe:
    """One probe: where it asks (`port` is None where the manifest names one that the container does not have), when it
    is sent, in seconds, and how many answers in a row count."""

    name: str
    path: str
    port: int | None
    delay: int
    period: int
    timeout: int
    failures: int
    successes: int

    @property
    def told(self) -> str:
        """ "livenessProbe (GET /health every 10 s, 3 failures)"."""
        failures = "1 failure" if self.failures == 1 else f"{self.failures} failures"
        return f"{self.name} (GET {self.path} every {self.period} s, {failures})"


@dataclass(frozen=True)
class Pod:
    """What of a manifest decides how its container lives and ends. `stop`: seconds of preStop's sleep."""

    probes: Mapping[str, Probe]
    restart: str
    grace: int
    stop: int


@dataclass
class Watched:
    """What happened: `sent` are (second, probe, good), `events` what the kubelet did, and `killed` why it killed."""

    phases: Sequence[tuple[int, str]]
    sent: list[tuple[int, str, bool]] = field(default_factory=list)
    events: list[tuple[int, str]] = field(default_factory=list)
    ready: list[tuple[int, bool]] = field(default_factory=list)
    killed: tuple[int, Probe] | None = None
    end: int = 0

    def readiness(self, second: int) -> bool:
        """Whether requests are sent to it at this second."""
        return next((value for at, value in reversed(self.ready) if at <= second), False)


def read(manifest: Any, image: str = "") -> Pod:
    """The Pod of a manifest: its container with this image, or its first. Raises ValueError, with what is not there."""
    spec = _map(_map(manifest, "the manifest").get("spec"), "spec")
    containers = spec.get("containers")
    if not isinstance(containers, list) or not containers:
        raise ValueError("spec.containers is no list with a container")
    several = [_map(each, "a container") for each in containers]
    container = next((each for each in several if each.get("image") == image), several[0])
    listed = container.get("ports") if isinstance(container.get("ports"), list) else []
    ports = {each.get("name"): each.get("containerPort") for each in listed or [] if isinstance(each, dict)}
    probes = {name: _probe(name, container[name], ports) for name in PROBES if container.get(name) is not None}
    grace = spec.get("terminationGracePeriodSeconds", GRACE)
    if not isinstance(grace, int):
        raise ValueError("spec.terminationGracePeriodSeconds is no whole number")
    return Pod(probes, str(spec.get("restartPolicy", "Always")), grace, _stop(container))


def _map(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no mapping")
    return value


def _probe(name: str, told: Any, ports: Mapping[Any, Any]) -> Probe:
    told = _map(told, name)
    get = _map(told.get("httpGet"), f"{name}.httpGet")
    port = get.get("port")
    number = ports.get(port) if isinstance(port, str) else port
    counts = {key: told.get(key, default) for key, default in DEFAULTS.items()}
    for key, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < (key == "periodSeconds"):
            raise ValueError(f"{name}.{key} is {value!r}")
    plain = str(get.get("scheme", "HTTP")).upper() == "HTTP" and get.get("host") in (None, "", "127.0.0.1")
    return Probe(
        name, str(get.get("path", "/")), number if isinstance(number, int) and plain else None,
        counts["initialDelaySeconds"], counts["periodSeconds"], counts["timeoutSeconds"],
        counts["failureThreshold"], counts["successThreshold"],
    )  # fmt: skip


def _stop(container: dict[str, Any]) -> int:
    """Seconds for which preStop sleeps: by the sleep action, or a command that sleeps; 0 where that is not known."""
    lifecycle = container.get("lifecycle")
    hook = lifecycle.get("preStop") if isinstance(lifecycle, dict) else None
    if not isinstance(hook, dict):
        return 0
    seconds = hook["sleep"].get("seconds", 0) if isinstance(hook.get("sleep"), dict) else None
    if seconds is None and isinstance(hook.get("exec"), dict):
        command = hook["exec"].get("command")
        words = " ".join(map(str, command)).split() if isinstance(command, list) else []
        after = [words[at + 1] for at, word in enumerate(words[:-1]) if word.rpartition("/")[2] == "sleep"]
        seconds = int(after[0].rstrip("s;")) if after and after[0].rstrip("s;").isdigit() else 0
    return seconds if isinstance(seconds, int) and not isinstance(seconds, bool) else 0


class _Kubelet:
    """Acts on probes second by second, until it kills the container, or the time is over."""

    def __init__(self, pod: Pod, phases: Sequence[tuple[int, str]], answers: Answers, port: int | None) -> None:
        self.pod, self.phases, self.answers, self.port = pod, phases, answers, port
        self.found = Watched(phases)
        self.bad: dict[str, int] = {}
        self.good: dict[str, int] = {}
        self.begun: dict[str, int] = {}

    def state(self, second: int) -> str:
        return [state for begin, state in self.phases if begin <= second][-1]

    def begin(self, second: int, *names: str) -> None:
        self.begun.update({name: second for name in names if name in self.pod.probes})
        if READINESS in names and READINESS not in self.pod.probes:
            self.found.ready.append((second, True))

    def good_answer(self, probe: Probe, second: int) -> bool:
        if self.port is not None and probe.port != self.port:
            return False
        state = self.state(second)
        status = None if state in (HUNG, STARTING) else self.answers.get((probe.path, state))
        return status is not None and 200 <= status < 400

    def run(self, seconds: int) -> Watched:
        if STARTUP in self.pod.probes:
            self.begin(0, STARTUP)
        else:
            self.begin(0, LIVENESS, READINESS)
        for second in range(seconds + 1):
            self.found.end = second
            for name in PROBES:
                begun = self.begun.get(name)
                if begun is None:
                    continue
                probe = self.pod.probes[name]
                since = second - begun - probe.delay
                if since > 0 and since % probe.period == 0 and self.act(probe, second):
                    return self.found
        return self.found

    def act(self, probe: Probe, second: int) -> bool:
        """Send a probe and act on it; whether the container is killed."""
        good, name = self.good_answer(probe, second), probe.name
        self.found.sent.append((second, name, good))
        self.bad[name] = 0 if good else self.bad.get(name, 0) + 1
        self.good[name] = self.good.get(name, 0) + 1 if good else 0
        if name == READINESS:
            ready = self.found.readiness(second)
            if good and not ready and self.good[name] >= probe.successes:
                self.found.ready.append((second, True))
            elif ready and self.bad[name] >= probe.failures:
                self.found.ready.append((second, False))
        elif name == STARTUP and good:
            del self.begun[STARTUP]
            self.begin(second, LIVENESS, READINESS)
        elif not good and self.bad[name] >= probe.failures:
            late = probe.timeout if self.state(second) == HUNG else 0
            self.found.killed = (second + late, probe)
            return True
        return False


def watch(
    pod: Pod, phases: Sequence[tuple[int, str]], answers: Answers, seconds: int, port: int | None = None
) -> Watched:  # fmt: skip
    """So many seconds of a container that is in these states, each from its second on: [(0, "starting"), ...]. Probes
    of another port than `port` reach nobody."""
    return _Kubelet(pod, phases, answers, port).run(seconds)


_WORDS: dict[Became, str] = {
    "done": "answered 200; requests are sent", "failed": "not answered, or with an error", "still": "not ready yet",
    "died": "requests are sent, and cannot be answered",
}  # fmt: skip


def chart(found: Watched, title: str = "", subtitle: str = "") -> Chart:
    """The process's states, its probes, and whether requests are sent to it, over virtual seconds."""
    lanes = ("process", *(name for name in PROBES if any(each == name for _, each, _ in found.sent)), "requests")
    picture = Chart(lanes, title=title, subtitle=subtitle, words=dict(_WORDS), cross="the kubelet kills it")
    picture.end = float(max(found.end, 1))
    for number, (begin, state) in enumerate(found.phases):
        end = found.phases[number + 1][0] if number + 1 < len(found.phases) else found.end
        if begin < found.end:
            became: Became = "done" if state == "ready" else "failed" if state == HUNG else "still"
            picture.bars.append(Bar("process", begin, min(end, found.end), state, became))
    for name in PROBES:
        sent = [(second, good) for second, each, good in found.sent if each == name]
        while sent:
            many = next((at for at, (_, good) in enumerate(sent) if good != sent[0][1]), len(sent))
            text = f"{many} x {'good' if sent[0][1] else 'bad'}"
            picture.bars.append(
                Bar(name, sent[0][0], sent[many - 1][0], text, "done" if sent[0][1] else "failed")
            )  # fmt: skip
            sent = sent[many:]
    state_at = [state for _, state in found.phases]
    for number, (begin, sends) in enumerate(found.ready):
        end = found.ready[number + 1][0] if number + 1 < len(found.ready) else found.end
        cuts = [begin, *(at for at, _ in found.phases if begin < at < end), end]
        for left, right in itertools.pairwise(cuts) if sends else ():
            state = state_at[max(at for at, (since, _) in enumerate(found.phases) if since <= left)]
            good = state == "ready"
            picture.bars.append(Bar("requests", left, right, "sent", "done" if good else "died"))
    if found.killed:
        picture.gone["process"] = min(found.killed[0], picture.end)
    return picture


ANSWERS: dict[tuple[str, str], int | None] = {
    ("/health", "loading"): 200, ("/health", "ready"): 200, ("/health", "unusable"): 200,
    ("/ready", "loading"): 503, ("/ready", "ready"): 200, ("/ready", "unusable"): 503,
}  # fmt: skip


def rehearse(manifest: Any, start_seconds: int, load_seconds: int) -> Chart:
    """A picture of the Pod's beginning: nobody listens for `start_seconds`, then the model is loaded for so long, and
    then it is ready; each probe finds at /health and /ready what a right replica answers. Raises ValueError."""
    phases = [(0, STARTING), (start_seconds, "loading"), (start_seconds + load_seconds, "ready")]
    found = watch(read(copy.deepcopy(manifest)), phases, ANSWERS, start_seconds + load_seconds + 60)
    end = f"killed at second {found.killed[0]} by {found.killed[1].name}" if found.killed else "not killed"
    return chart(found, "What the kubelet does", f"{end[0].upper()}{end[1:]}. Virtual seconds.")
