"""Message-passing nodes stepped event by event: a reader decides what arrives, what is lost, who crashes."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from courselib import commit, election
from courselib.cluster import members_of
from courselib.figures.shown import figure
from courselib.stepper import Action, Asking, Impossible, Judge, Stepper
from courselib.svg import Plot
from grader.nodes.node import Node
from grader.nodes.sim import Member
from grader.trace import moments, storyboard
from grader.trace.story import Fault, Happened, Sent, Story

OPEN = (  # a question for any class, and what helps to answer it
    "In which order of messages, timers and crashes do your nodes break what they promise?",
    "Write the promise as a function of each node's attributes that returns a sentence where it is broken, and give it "
    "to figures.steps as judge. The sentence then stands above the messages as soon as you have got there.",
)


def steps(
    kinds: Mapping[str, type[Node]] | type[Node], size: int | Sequence[Member] = 3,
    asks: Asking | None = None, *, judge: Judge | None = None,
    lines: Sequence[str] = (), title: str = "Nodes, step by step",
    question: str = OPEN[0], answer: str = OPEN[1], record: int = 300, **settings: Any,
) -> Any:  # fmt: skip
    """Nodes of your own class, or of several, stepped by whoever looks.

        figures.steps(RaftNode, 3, {"c": [("n1", {"type": "write", "key": "x", "value": 1})]})

    `asks` is what each client asks, in order. `judge` says what is wrong with the nodes' attributes (by node, by name;
    containers as text), None where nothing is. The first of `lines` (see `Stepper.named`) is there to be stepped
    through. Without a kernel that is all there is, with `record` states around the lines. Raises `Impossible` for a
    line that cannot happen, and where a handler raises at the start.
    """
    kinds = {kinds.__name__: kinds} if isinstance(kinds, type) else dict(kinds)
    run = Stepper(kinds, members_of(kinds, size, settings), asks)
    wanted = [run.named(line) for line in lines]
    states = run.around(wanted, record)
    made = figure(
        "steps",
        _still(run, wanted[0] if wanted else [], title),
        question=question, answer=answer,
        names=list(run.names), asks=run.asks, line=[list(action) for action in (wanted or [[]])[0]],
        record=run.record(states, judge, targets=True), wish=None, seen=None,
    )  # fmt: skip

    def answered(change: Any) -> None:
        path = change["new"]
        made.seen = {"path": path, **_reached(run, [tuple(action) for action in path], judge)}

    made.observe(answered, "wish")
    return made


def _reached(run: Stepper, path: Sequence[Action], judge: Judge | None) -> dict[str, Any]:
    """The state at the end of a path, or why there is none."""
    try:
        state = run.begin()
        for action in path:
            state = run.after(state, action)
    except Impossible as impossible:
        return {"failed": str(impossible)}
    return {"record": run.record([state], judge)}


def _still(run: Stepper, line: Sequence[Action], title: str) -> Plot:
    """The line as a space-time diagram."""
    state, told = run.begin(), Story((*run.asks, *run.names), "step", title=title, end=float(len(line) + 1))
    under_way: dict[tuple[str, str, str], list[Sent]] = defaultdict(list)
    away: dict[tuple[str, str], float] = {}  # since when who is down, or cut off

    def send(src: str, dst: str, text: str, at: float) -> Sent:
        told.sent.append(Sent(len(told.sent), src, dst, json.loads(text), at))
        return told.sent[-1]

    for src, dst, text in state.messages:
        under_way[src, dst, text].append(send(src, dst, text, 0.0))
    for at, action in enumerate(line, 1):
        before, state = state, run.after(state, action)
        kind, who = action[0], action[1]
        if kind in ("deliver", "drop"):
            sent = under_way[action[1], action[2], action[3]].pop(0)
            sent.fate, sent.arrived = ("delivered", float(at)) if kind == "deliver" else ("dropped", None)
        elif kind in ("crash", "cut"):
            away[kind, who] = at
        elif kind in ("restart", "heal"):
            told.faults.append(_fault(kind, who, away.pop(("crash" if kind == "restart" else "cut", who)), at, run))
        if kind in ("crash", "restart"):
            told.events.append(Happened("crash" if kind == "crash" else "restart", who, at))
        elif kind == "timer":
            timer = run.view(before, run.names.index(who))["timers"][0].split(",")[0]
            told.events.append(Happened("timer", who, at, timer))
        left = Counter(before.messages)
        if kind in ("deliver", "drop"):
            left[action[1], action[2], action[3]] -= 1
        for src, dst, text in (Counter(state.messages) - left).elements():
            under_way[src, dst, text].append(send(src, dst, text, float(at)))
        for client, text in state.heard[len(before.heard) :]:
            sent = send(action[2] if kind == "deliver" else who, client, text, float(at))
            sent.fate, sent.arrived = "delivered", at + 0.5
    told.faults += [_fault(kind, who, since, math.inf, run) for (kind, who), since in away.items()]
    return Plot(moments.still(storyboard.svg(told)), title)


def _fault(kind: str, who: str, since: float, until: float, run: Stepper) -> Fault:
    if kind in ("crash", "restart"):
        return Fault("down", since, until, ((who,),))
    return Fault("partition", since, until, ((who,), tuple(name for name in run.names if name != who)))


def two_phase_commit(*, phases: int = 2, impatient: bool = False) -> Any:
    """`commit`'s coordinator and two banks, stepped. In the recorded run of two phases the coordinator crashes.

    With three phases, or `impatient`, banks decide by themselves: no run is recorded, and it can end badly.
    """

    def split(nodes: dict[str, dict[str, Any]]) -> str | None:
        return commit.outcomes({name: each.get("state") for name, each in nodes.items()})

    voted = "client; client>coord; coord>A; coord>B; A>coord"
    blocked = f"{voted}; crash coord; timer A; A>B how?; B>A; timer A"
    learnt = f"{voted}; B>coord; coord>A commit; crash coord; timer B; B>A how?; A>B state"
    waits = (
        "In the recorded run the coordinator crashes, and A asks in vain. Go back to step 5. Let the coordinator crash "
        "later, so that B learns the outcome without it. Can you make A commit and B abort?",
        "Deliver B's vote as well, and the commit to A, and crash the coordinator only then. When B's timer goes off, "
        "B asks A, and A has committed. Banks that wait never end differently, whatever you lose. That is why they "
        "can be blocked. With impatient=True B aborts when its timer goes off, and one late message is enough.",
    )
    decides = (
        "Can you make one bank commit and the other abort?",
        "Yes, because a bank decides by itself. Let one bank hear more than the other, and let the timers go off.",
    )
    alone = impatient or phases == 3
    question, answer = decides if alone else waits
    return steps(
        commit.KINDS,
        commit.banks("A B", phases, impatient=impatient),
        {"client": [("coord", {"type": "begin"})]},
        judge=split,
        lines=[] if alone else [blocked, learnt],
        title=f"{'Two' if phases == 2 else 'Three'}-phase commit, step by step",
        question=question,
        answer=answer,
    )


def election_in_terms(size: int = 3) -> Any:
    """`election.Elector`, Raft's elections without its disk, stepped. In the recorded run two nodes lead at once."""

    def twice(nodes: dict[str, dict[str, Any]]) -> str | None:
        led: dict[int, str] = {}
        for name, each in nodes.items():
            if each["role"] == "leader" and led.setdefault(each["term"], name) != name:
                return f"{led[each['term']]} and {name} both lead in term {each['term']}"
        return None

    two_terms = "timer n1; n1>n2; n2>n1; cut n1; timer n2; n2>n3; n3>n2; heal n1; n2>n1 elect me; n2>n1 beat"
    one_term = "timer n1; n1>n2; n2>n1; crash n2; restart n2; timer n3; n3>n2; n2>n3"
    return steps(
        election.Elector,
        size,
        {"client": [("n1", {"type": "append", "value": "a"})]},
        judge=twice,
        lines=[two_terms, one_term] if size == 3 else [],
        title="A leader, in terms, step by step",
        question="At step 7 of the recorded run n1 and n2 both lead. That is allowed, because their terms differ. Make "
        "two nodes lead in the same term. One crash is enough.",
        answer="Let n1 be elected with n2's vote. Crash n2 and restart it. This small class keeps its vote in memory "
        "only, so n2 has forgotten it. Let n3's timer go off: n2 votes again in term 1, for n3. In Raft, the term and "
        "the vote are on disk before the vote is sent.",
    )
