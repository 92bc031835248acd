"""A replicated store through a partition whose ends a reader moves: who is refused, and who is told something old."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from courselib import cluster
from courselib.figures.shown import figure
from courselib.stores import Store
from courselib.timeline import timeline
from grader.nodes.network import Network

MODES = {"CP": ("read", "write"), "AP": (), "followers": ("write",)}  # what only the home answers
WAY, PATIENCE, END = 0.02, 0.5, 6.0  # seconds: one way of any message, until a node refuses, of the picture
REQUESTS = (  # (node, what is written, or None for a read, when)
    ("n1", 1, 0.25), ("n2", None, 0.65), ("n1", 2, 1.05), ("n2", None, 1.45), ("n2", 3, 2.05), ("n1", None, 2.35),
    ("n2", None, 2.75), ("n1", 4, 3.05), ("n1", None, 3.75), ("n2", None, 4.05), ("n2", 5, 4.55), ("n1", None, 5.05),
    ("n2", None, 5.35),
)  # fmt: skip


@dataclass(frozen=True)
class Answered:
    """What became of a request: "written", "read", "stale" (a write that had been confirmed before is not in what was
    read), or "refused"; the value that was read, and when the answer came."""

    what: str
    value: int | None
    at: float


def answered(mode: str, since: float, until: float) -> list[Answered]:
    """Each of REQUESTS to a `Store` of two nodes, of which n1 is the home, cut from each other in [since, until)."""
    asks = {f"c{k}": [(node, _body(value), at)] for k, (node, value, at) in enumerate(REQUESTS)}
    cuts = [cluster.partition(since, until, "n1", "n2")] if since < until else []
    even = Network(WAY, WAY)
    run = cluster.cluster(Store, 2, asks, cuts, END + 1, network=even, only_home=MODES[mode], patience=PATIENCE)
    done = [run.played.clients[client].done[0] for client in asks]
    written = [(one.answered, one.ask.body["value"]) for one in done if one.answer and one.answer["type"] == "write_ok"]
    found = []
    for one, (_, _, at) in zip(done, REQUESTS, strict=True):
        assert one.answer is not None
        assert one.answered is not None
        value = one.answer.get("value")
        newest = max((each for when, each in written if when is not None and when < at), default=0)
        what = {"write_ok": "written", "read_ok": "stale" if (value or 0) < newest else "read"}
        found.append(Answered(what.get(one.answer["type"], "refused"), value, one.answered))
    return found


def _body(value: int | None) -> dict[str, Any]:
    return {"type": "read", "key": "x"} if value is None else {"type": "write", "key": "x", "value": value}


def partition(mode: str = "AP", *, since: float = 0.8, until: float = 3.4) -> Any:
    """Thirteen requests to two replicas, and a partition from `since` to `until` seconds that can be dragged.

    `mode` says who may answer: "CP", only the home n1; "AP", every node from its own copy; "followers", writes at the
    home, reads anywhere.
    """
    kinds = ["read", "stale", "written", "refused"]
    rows: dict[str, list[tuple[float, float, str, str]]] = {"n1": [], "n2": []}
    for (node, value, at), one in zip(REQUESTS, answered(mode, since, until), strict=True):
        label = f"w{value}" if value else "-" if one.value is None else f"r{one.value}"
        rows[node].append((at, at + 0.3, label, one.what))
    rows["cut"] = [(since, until, "partition", "partition")] if since < until else []
    still = timeline("Two replicas and a partition", rows, until=END, kinds=[*kinds, "partition"])
    return figure(
        "partition",
        still,
        question="In AP, how long can a partition last so that no read is stale? In CP, how long so that nothing is "
        "refused? And does a partition that has healed still do harm?",
        answer="AP: 1.4 seconds, from 3.1 s to 4.5 s, between two writes. A tenth of a second over a write is enough "
        "to lose its copy, and healing does not send that again: reads stay stale until the next write gets through. "
        "CP: 1.1 seconds, from 2.9 s to 4 s, while nobody asks n2. Now let the cut begin at 2.1 s: n2 refuses write 3, "
        "although n1 has it, because only the confirmation was lost. A refusal is not a no.",
        requests=[list(one) for one in REQUESTS],
        homes={name: list(only) for name, only in MODES.items()},
        way=WAY, patience=PATIENCE, end=END,
        mode=mode, since=since, until=until,
    )  # fmt: skip
