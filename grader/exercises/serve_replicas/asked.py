"""What replicas are asked and what must come, the facts that a manifest is made for, and a picture of what happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.exercises.serve_checkpoint.answering import close, short, values
from grader.exercises.serve_checkpoint.checkpoints import Ask
from grader.trace.gantt import Bar, Became, Chart

Told = dict[str, Any]
# One second over a multiple of 60, and so of the usual periods: who rounds down or to the nearest gives too little time.
STARTS = 421, 541, 661
LARGE = 4  # the request in `drain` with the large answer, which its client reads late
RUINS = {  # of a checkpoint: in a sentence, and what to do
    "half": ("the second half of the checkpoint's file is missing", ""),
    "key": (
        "the checkpoint's state dict lacks a key",
        " Without it the model is not the one that was saved: let load_state_dict raise, as it does with strict=True, "
        "its default.",
    ),
}


@dataclass(frozen=True, eq=False)
class Plan:
    """A script, and the requests that it sends by their number."""

    script: str
    asks: tuple[Ask, ...]
    ruin: str = ""  # what is the matter with the checkpoint, see RUINS


@dataclass(frozen=True)
class Facts:
    """What pod() is called with, but for the port in `probes`, which is a real one."""

    image: str
    port: int
    start: int
    load: int
    request: int
    notice: int

    @classmethod
    def drawn(cls, rng: np.random.Generator, number: int) -> Facts:
        """The first starts and loads within what the kubelet's defaults allow, but ends slowly; the second is
        slower than the 300 s that manifests often give, and even a twentieth of the time in which it loads is longer than
        a probe may wait. Of a third, notice and request take about as long."""
        image = f"registry.example.com/models/spirals:{rng.integers(1, 9)}.{rng.integers(0, 40)}"
        port = int(rng.integers(5000, 9000))
        if number == 0:
            return cls(image, port, *(int(rng.integers(*each)) for each in ((4, 12), (5, 20), (40, 120), (3, 8))))
        if number == 2:
            return cls(image, port, *(int(rng.integers(*each)) for each in ((4, 12), (5, 20), (50, 60), (40, 50))))
        others = (int(rng.integers(*each)) for each in ((1300, 1800), (3, 9), (31, 70)))
        return cls(image, port, int(rng.choice(STARTS)), *others)

    @property
    def seconds(self) -> list[int]:
        return [self.start, self.load, self.request, self.notice]

    @property
    def label(self) -> str:
        return (
            f"start_seconds={self.start}, load_seconds={self.load}, request_seconds={self.request}, "
            f"notice_seconds={self.notice}"
        )


def of(told: Told, stage: str, path: str = "") -> list[Told]:
    """The requests of a stage of the script, in the order in which they were sent."""
    return [each for each in told["asks"] if each["stage"] == stage and path in ("", each["path"])]


def event(told: Told, what: str, replica: int = 0) -> int | None:
    """When something happened to a replica, as its place in the order of all; None where it did not."""
    found = [each["at"] for each in told["events"] if each["what"] == what and each["replica"] == replica]
    return int(found[0]) if found else None


def asked(each: Told) -> str:
    """ "GET /ready", "request 4 (POST /predict)"."""
    return f"GET {each['path']}" if each["body"] < 0 else f"request {each['body']} (POST {each['path']})"


def came(each: Told) -> str:
    """What came of a request: "status 503", "no answer (the connection was refused)"."""
    if each["status"] is not None:
        return f"status {each['status']}"
    if each["error"] == "refused":
        return "no answer, because nobody listened at the port"
    return f"no answer ({short(each['error'], 80)})" if each["error"] else "no answer"


def right(plan: Plan, each: Told) -> bool:
    """Whether a prediction was answered as the model answers it."""
    wanted = plan.asks[each["body"]].right
    if each["status"] != 200 or wanted is None:
        return False
    found = values(each["said"], wanted.shape)
    return not isinstance(found, str) and close(found, wanted)


WORDS: dict[Became, str] = {
    "done": "answered as it should be", "again": "sent again to another replica", "still": "not ready, and says so",
    "failed": "not answered as it should be", "died": "lost with its replica",
}  # fmt: skip
STEADY = {"loading": 503, "filling": 503, "unusable": 503, "draining": 503, "late": 503, "until ready": 200}


def chart(plan: Plan, told: Told, title: str = "") -> Chart:
    """A lane for each replica and its probes, and one for its predictions; what happened one after the other."""
    order = sorted(
        {each[key] for each in told["asks"] for key in ("begin", "end") if each[key] is not None}
        | {each["at"] for each in told["events"]}
    )
    place = {at: float(number) for number, at in enumerate(order)}
    end = float(len(order))
    ranks = sorted({each["replica"] for each in (*told["asks"], *told["events"])})
    name = {rank: f"replica {rank}" if len(ranks) > 1 else "the replica" for rank in ranks}
    if len(ranks) == 3:
        name[2] = "replica 0 again"
    picture = Chart((), title=title, unit="", words=dict(WORDS), cross="killed", end=end, lines=False)
    picture.subtitle = (
        "What happened, one after the other, without a clock. Each bar is a request, from its sending to its answer."
    )
    for rank in ranks:
        _lanes(picture, plan, told, rank, name[rank], place, end)
    return picture


def _lanes(
    picture: Chart, plan: Plan, told: Told, rank: int, name: str, place: dict[int, float], end: float
) -> None:  # fmt: skip
    picture.lanes = (*picture.lanes, name)
    killed, over = event(told, "SIGKILL", rank), end
    for at, words, became in reversed(_states(told, rank)):
        if words:
            picture.bars.append(Bar(name, place[at], over, words, became))
        over = place[at]
    if killed is not None:
        picture.gone[name] = place[killed]
    rows: list[tuple[str, float]] = []
    owner = "" if name == "the replica" else f"{name}: "
    for each in told["asks"]:
        if each["replica"] != rank:
            continue
        begin, until = place[each["begin"]], place.get(each["end"], end)
        kind = f"{owner}probes" if each["body"] < 0 else f"{owner}requests"
        row = next((at for at, (lane, free) in enumerate(rows) if lane.startswith(kind) and free <= begin), len(rows))
        if row == len(rows):
            already = sum(lane.startswith(kind) for lane, _ in rows)
            rows.append((f"{kind} ({already + 1})" if already else kind, until))
        rows[row] = (rows[row][0], until)
        status = each["status"] or ("refused" if each["error"] == "refused" else "none")
        label = f"{status} {each['path']}" if each["body"] < 0 else f"{each['body']}: {status}"
        picture.bars.append(Bar(rows[row][0], begin, until, label, _became(plan, each, killed)))
    picture.lanes = (*picture.lanes, *sorted((lane for lane, _ in rows), key=lambda lane: "probes" not in lane))


_STATES: dict[str, tuple[str, Became]] = {
    "begins": ("starts", "still"), "at load": ("loads its checkpoint", "still"), "at state": ("fills its model", "still"),
    "SIGTERM": ("drains", "still"), "SIGKILL": ("", "still"), "gone": ("", "still"),
}  # fmt: skip


def _states(told: Told, rank: int) -> list[tuple[int, str, Became]]:
    """What a replica is from when on."""
    found = [(each["at"], *_STATES[each["what"]]) for each in told["events"]
             if each["replica"] == rank and each["what"] in _STATES]  # fmt: skip
    ready: list[tuple[int, str, Became]] = [
        (each["end"], "is ready", "done")
        for each in of(told, "until ready")
        if each["replica"] == rank and each["status"] == 200
    ]
    return sorted([*found, *ready])


def _became(plan: Plan, each: Told, killed: int | None) -> Became:
    if each["body"] >= 0 and each["stage"] not in STEADY:
        if right(plan, each):
            return "again" if each["stage"] == "retried" else "done"
        return "died" if killed is not None and each["begin"] < killed else "failed"
    if each["path"] == "/health":
        return "done" if each["status"] == 200 else "failed"
    wanted = STEADY.get(each["stage"])
    if each["status"] == wanted or (each["stage"] == "loading" and each["error"] == "refused"):
        return "done" if wanted == 200 else "still"
    return "failed"
