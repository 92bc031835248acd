"""Stories of clusters made by hand: what the simulator and the explorer tell, without either."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from grader.trace.story import Fate, Fault, Happened, Sent, Story, What


class Telling:
    """Builds a story. Calls may come in any order of time."""

    def __init__(self, *lanes: str, unit: Any = "s", title: str = "", subtitle: str = "") -> None:
        self.story = Story(lanes, unit, title=title, subtitle=subtitle)

    def send(
        self, src: str, dst: str, sent: float, arrived: float | None, type: str, fate: Fate = "delivered",  # noqa: A002
        line: int | None = 20, copy: bool = False, marked: bool = False, **body: Any,
    ) -> int:  # fmt: skip
        number = len(self.story.sent)
        if arrived is None and fate == "delivered":
            fate = "in flight"
        self.story.sent.append(Sent(number, src, dst, {"type": type, **body}, sent, line, arrived, fate, copy))
        if marked:
            self.story.marked.add(number)
        return number

    def event(self, what: What, node: str, at: float, text: str = "", blamed: bool = False) -> None:
        self.story.events.append(Happened(what, node, at, text, 31 if what == "write" else None))
        if blamed:
            self.story.blamed.add(len(self.story.events) - 1)

    def fault(self, what: Any, since: float, until: float, *groups: tuple[str, ...], **more: Any) -> None:
        self.story.faults.append(Fault(what, since, until, groups, **more))

    def asked(
        self, process: str, f: str, since: float, until: float | None, value: Any = None, ended: str = "ok",
        answer: Any = None, key: Any = "x", **more: Any,
    ) -> None:  # fmt: skip
        event = {"process": process, "f": f, "key": key}
        self.story.history.append({**event, "type": "invoke", "value": value, "time": since})
        if until is not None:
            told = answer if f == "read" else value
            self.story.history.append({**event, "type": ended, "value": told, "time": until, **more})

    def done(self, end: float) -> Story:
        for lane in self.story.lanes:
            if not lane.startswith("c"):
                self.story.events.append(Happened("start", lane, 0.0))
        self.story.end = end
        return self.story


def quorum_read_that_goes_back() -> Story:
    """A minimised schedule of a store without write-back: a read sees 2, a later one 1."""
    tell = Telling(
        "n1", "n2", "n3", "c1", "c2", unit="step",
        title="Not linearizable: a later read sees an older value",
        subtitle="quorum_store, W = 2, R = 2, 3 nodes. The shortest schedule found by the explorer: 13 steps.",
    )  # fmt: skip
    tell.send("c1", "n1", 1, 2, "write", key="x", value=2, msg_id=1)
    for to, at, fate in (("n2", 3, "delivered"), ("n3", None, "in flight")):
        tell.send("n1", to, 2, at, "store", fate, key="x", value=2, timestamp=[2, "n1"])
    tell.event("write", "n1", 2, 'x = [2, [2, "n1"]]')
    tell.event("write", "n2", 3, 'x = [2, [2, "n1"]]')
    tell.send("n2", "n1", 3, None, "store_ok", "in flight", timestamp=[2, "n1"])
    tell.send("c2", "n2", 4, 5, "read", key="x", msg_id=1)
    tell.send("n2", "n1", 5, 6, "fetch", key="x", read=1)
    tell.send("n2", "n3", 5, None, "fetch", "dropped", key="x", read=1)
    tell.send("n1", "n2", 6, 7, "fetch_ok", key="x", value=2, timestamp=[2, "n1"], read=1)
    tell.send("n2", "c2", 7, 8, "read_ok", value=2, in_reply_to=1)
    tell.event("crash", "n1", 9)
    tell.fault("down", 9, 13, ("n1",))
    tell.send("c2", "n3", 9, 10, "read", key="x", msg_id=2)
    tell.send("n3", "n2", 10, 11, "fetch", key="x", read=1)
    tell.send("n3", "n1", 10, 11, "fetch", "lost", key="x", read=1)
    tell.send("n2", "n3", 11, 12, "fetch_ok", key="x", value=1, timestamp=[1, "n1"], read=1, marked=True)
    tell.send("n3", "c2", 12, 13, "read_ok", value=1, in_reply_to=2, marked=True)
    tell.asked("c1", "write", 1, None, 2)
    tell.asked("c2", "read", 4, 8, answer=2)
    tell.asked("c2", "read", 9, 13, answer=1)
    return tell.done(13)


def partition_with_a_blocked_minority() -> Story:
    tell = Telling(
        "n1", "n2", "n3", "n4", "n5", "c1", "c2",
        title="CP: the minority answers an error, the majority goes on",
        subtitle="cap_store, mode CP, 5 nodes; n1 n2 are cut off from 0.5 s to 2.5 s. Seed 7.",
    )  # fmt: skip
    rng, nodes = random.Random(7), ("n1", "n2", "n3", "n4", "n5")

    def write(client: str, at: float, value: int, node: str, side: tuple[str, ...], answered: float) -> None:
        start = at + rng.uniform(0.005, 0.02)
        tell.send(client, node, at, start, "write", key="x", value=value, msg_id=value)
        for other in nodes:
            if other == node:
                continue
            if other not in side:
                tell.send(node, other, start, None, "prepare", "cut", key="x", value=value, ballot=value)
                continue
            there = start + rng.uniform(0.005, 0.05)
            tell.send(node, other, start, there, "prepare", key="x", value=value, ballot=value)
            tell.event("write", other, there, f"x = {value}")
            tell.send(other, node, there, there + rng.uniform(0.005, 0.04), "promise", ballot=value)
        tell.send(node, client, answered - 0.012, answered, "write_ok" if len(side) > 2 else "error",
                  in_reply_to=value, **({} if len(side) > 2 else {"code": 11, "text": "no majority"}))  # fmt: skip

    tell.fault("partition", 0.5, 2.5, ("n1", "n2"), ("n3", "n4", "n5"))
    write("c1", 0.1, 1, "n1", nodes, 0.24)
    tell.asked("c1", "write", 0.1, 0.24, 1)
    write("c1", 0.7, 2, "n1", ("n1", "n2"), 1.75)
    tell.event("timer", "n1", 1.735, "give up")
    tell.asked("c1", "write", 0.7, 1.75, 2, "fail", error=11)
    write("c2", 0.8, 3, "n4", ("n3", "n4", "n5"), 0.93)
    tell.asked("c2", "write", 0.8, 0.93, 3)
    write("c2", 2.6, 4, "n4", nodes, 2.76)
    tell.asked("c2", "write", 2.6, 2.76, 4)
    tell.send("c1", "n1", 2.8, 2.81, "read", key="x", msg_id=5)
    tell.send("n1", "n2", 2.81, 2.83, "read_at", key="x", copy=False)
    tell.send("n1", "n2", 2.81, 2.85, "read_at", key="x", copy=True)
    tell.send("n1", "n3", 2.81, None, "read_at", "dropped", key="x")
    tell.send("n1", "n4", 2.81, 2.84, "read_at", key="x")
    tell.send("n2", "n1", 2.83, 2.87, "read_at_ok", value=4)
    tell.send("n4", "n1", 2.84, 2.88, "read_at_ok", value=4)
    tell.send("n1", "c1", 2.88, 2.89, "read_ok", value=4, in_reply_to=5)
    tell.asked("c1", "read", 2.8, 2.89, answer=4)
    return tell.done(3.0)


def coordinator_crash() -> Story:
    tell = Telling(
        "n0", "n1", "n2", "n3", "c1", unit="step",
        title="Atomic after all: the coordinator crashes between two sends, and recovers",
        subtitle="two_phase_commit, explorer, schedule 1,204 of 5,310.",
    )  # fmt: skip
    tell.send("c1", "n0", 1, 2, "begin", txn="t1", writes={"n1": {"x": 1}, "n2": {"y": 2}, "n3": {"z": 3}}, msg_id=1)
    tell.event("write", "n0", 2, "t1 = preparing")
    for at, node in enumerate(("n1", "n2", "n3"), 3):
        tell.send("n0", node, 2, at, "prepare", txn="t1", writes={"x": at})
        tell.event("write", node, at, "t1 = prepared")
        tell.event("state", node, at, "role = prepared")
        tell.send(node, "n0", at, at + 3, "vote", txn="t1", vote="yes")
    tell.event("write", "n0", 8, "t1 = committed")
    tell.send("n0", "n1", 8, 10, "outcome", txn="t1", decision="committed")
    tell.event("state", "n1", 10, "role = committed")
    tell.event("crash", "n0", 9, "after 1 of 3 sends")
    tell.event("timer", "n2", 11, "ask")
    tell.send("n2", "n0", 11, 12, "ask", "lost", txn="t1")
    tell.event("restart", "n0", 13)
    tell.fault("down", 9, 13, ("n0",))
    for at, node in ((14, "n3"), (15, "n2"), (16, "n1")):
        tell.send("n0", node, 13, at, "outcome", txn="t1", decision="committed")
        tell.event("write", node, at, "t1 = committed")
        tell.send(node, "n0", at, at + 3, "outcome_ok", txn="t1")
    tell.event("state", "n3", 14, "role = committed")
    tell.event("state", "n2", 15, "role = committed")
    tell.event("note", "n0", 19, "all told")
    tell.event("answer", "n0", 19, "committed to c1")
    tell.send("n0", "c1", 19, 20, "committed", txn="t1", in_reply_to=1)
    story = tell.done(20)
    story.words = [f"The schedule's own words for step {number}." for number in range(1, 8)]
    return story


def election() -> Story:
    """Five nodes of Raft: n1 leads and beats, crashes, n3 is elected in term 3 after a split vote."""
    tell = Telling(
        "n1", "n2", "n3", "n4", "n5", "c1", title="A new leader 0.4 s after the old one crashed",
        subtitle="raft, 5 nodes, heartbeats every 50 ms; n1 crashes at 1.2 s and is back at 2.4 s. Seed 12.",
    )  # fmt: skip
    rng, nodes = random.Random(12), ("n1", "n2", "n3", "n4", "n5")

    def delay() -> float:
        return rng.uniform(0.003, 0.03)

    def elect(node: str, at: float, term: int, voters: tuple[str, ...], up: tuple[str, ...]) -> None:
        tell.event("timer", node, at, "election")
        tell.event("state", node, at, f"role = candidate, current_term = {term}")
        tell.event("write", node, at, f"term = {term}")
        last = at
        for other in nodes:
            if other == node:
                continue
            there = at + delay()
            fate: Fate = "delivered" if other in up else "lost"
            tell.send(node, other, at, there, "request_vote", fate, term=term, candidate=node, last_log_index=4)
            if other in up:
                back = there + delay()
                tell.send(other, node, there, back, "request_vote_res", term=term, vote_granted=other in voters)
                last = max(last, back) if other in voters else last
        if len(voters) > 1:
            tell.event("state", node, last, f"role = leader, current_term = {term}")

    def beat(node: str, since: float, until: float, term: int, up: Callable[[float], tuple[str, ...]]) -> None:
        at = since
        while at < until:
            tell.event("timer", node, at, "heartbeat")
            for other in nodes:
                if other != node:
                    there = at + delay()
                    fate: Fate = "delivered" if other in up(there) else "lost"
                    tell.send(node, other, at, there, "append_entries", fate, term=term, prev_log_index=4, entries=[],
                              leader_commit=4)  # fmt: skip
                    if fate == "delivered":
                        tell.send(other, node, there, there + delay(), "append_entries_res", term=term, success=True)
            at += 0.05

    elect("n1", 0.16, 1, ("n2", "n3", "n4", "n5"), nodes)
    beat("n1", 0.24, 1.2, 1, lambda at: nodes)
    tell.event("crash", "n1", 1.2)
    up = nodes[1:]
    elect("n2", 1.38, 2, (), up)
    elect("n5", 1.385, 2, (), up)
    elect("n3", 1.56, 3, ("n2", "n4", "n5"), up)
    tell.event("restart", "n1", 2.4)
    tell.fault("down", 1.2, 2.4, ("n1",))
    beat("n3", 1.62, 2.9, 3, lambda at: nodes if at >= 2.4 else up)
    tell.asked("c1", "write", 0.5, 0.56, 1)
    tell.send("c1", "n1", 0.5, 0.505, "write", key="x", value=1, msg_id=1)
    for other in nodes[1:]:
        there = 0.505 + delay()
        tell.send("n1", other, 0.505, there, "append_entries", term=1, prev_log_index=4, entries=[{"op": ["x", 1]}])
        tell.send(other, "n1", there, there + delay(), "append_entries_res", term=1, success=True, index=5)
    tell.send("n1", "c1", 0.55, 0.56, "write_ok", in_reply_to=1)
    tell.asked("c1", "write", 1.19, 6.19, 2, "info")
    tell.send("c1", "n1", 1.19, 1.21, "write", "lost", key="x", value=2, msg_id=2)
    tell.asked("c1.1", "read", 2.0, 2.05, answer=1)
    story = tell.done(2.9)
    story.history = [event for event in story.history if event["time"] <= 2.9]
    return story


def gossip() -> Story:
    nodes = tuple(f"n{number}" for number in range(1, 17))
    tell = Telling(*nodes, "c1", title="A rumour reaches 16 nodes in five rounds of gossip",
                   subtitle="gossip_crdt, g-set, every 0.2 s to two others; cut in halves until 0.5 s.")  # fmt: skip
    rng, knows = random.Random(3), {"n1": 0.05}
    tell.send("c1", "n1", 0.03, 0.05, "add", element=7, msg_id=1)
    tell.send("n1", "c1", 0.05, 0.07, "add_ok", in_reply_to=1)
    tell.asked("c1", "add", 0.03, 0.07, 7, key=None)
    tell.fault("partition", 0.1, 0.5, nodes[:8], nodes[8:])
    tell.fault("slow", 0.6, 0.9, nodes[3:5], text="links of n4 n5 take 200 ms longer")
    for beat in range(1, 6):
        for node in nodes:
            at = beat * 0.2 + nodes.index(node) * 0.004
            for other in rng.sample([name for name in nodes if name != node], 2):
                cut = 0.1 <= at <= 0.5 and (nodes.index(node) < 8) != (nodes.index(other) < 8)
                there = at + rng.uniform(0.005, 0.05)
                known = [7] if knows.get(node, 9.0) <= at else []
                if not known and rng.random() < 0.6:
                    continue
                tell.send(node, other, at, None if cut else there, "gossip", "cut" if cut else "delivered", items=known)
                if known and not cut and knows.get(other, 9.0) > there:
                    knows[other] = there
    for node, at in knows.items():
        tell.event("state", node, at, "items = [7]")
    return tell.done(1.25)


def everything() -> Story:
    """Every kind of event, fault and fate once."""
    tell = Telling("alpha", "beta", "gamma", "c1", title="All there is")
    tell.send("alpha", "beta", 0.1, 0.15, "hello", key="k", value=[1, 2])
    tell.send("alpha", "beta", 0.1, 0.2, "hello", copy=True, key="k", value=[1, 2])
    tell.send("beta", "gamma", 0.2, None, "dropped one", "dropped")
    tell.send("beta", "gamma", 0.3, None, "cut one", "cut")
    tell.send("beta", "gamma", 0.35, 0.4, "cut on arrival", "cut")
    tell.send("gamma", "alpha", 0.5, 0.56, "lost one", "lost", line=None)
    tell.send("gamma", "omega", 0.55, None, "to nobody", "lost")
    tell.send("gamma", "gamma", 0.6, 0.64, "to itself")
    tell.send("beta", "alpha", 0.98, None, "late", "in flight")
    tell.send("beta", "alpha", 0.7, 0.75, "wrong", marked=True, value=3)
    tell.fault("partition", 0.28, 0.42, ("alpha", "beta"), ("gamma",))
    tell.fault("one-way", 0.5, 0.6, pairs=(("gamma", "alpha"), ("gamma", "beta")))
    tell.fault("slow", 0.62, 0.7, text="messages take 200 ms longer")
    tell.fault("loss", 0.72, 0.8, ("beta",))
    tell.fault("duplicates", 0.05, 0.2)
    tell.fault("down", 0.53, 0.58, ("alpha",))
    tell.fault("pause", 0.8, 0.9, ("gamma",))
    tell.event("crash", "alpha", 0.53)
    tell.event("restart", "alpha", 0.58)
    tell.event("pause", "gamma", 0.8)
    tell.event("resume", "gamma", 0.9)
    tell.event("set_timer", "beta", 0.05, "tick")
    tell.event("timer", "beta", 0.2, "tick")
    tell.event("write", "beta", 0.2, "k = [1, 2]")
    tell.event("write", "beta", 0.2, "m deleted")
    tell.event("state", "beta", 0.2, "role = leader, current_term = 3, commit_index = 9")
    tell.event("note", "alpha", 0.4, "all is well")
    tell.event("answer", "alpha", 0.85, "read_ok to c1")
    tell.event("raised", "beta", 0.95, "KeyError", blamed=True)
    tell.asked("c1", "write", 0.1, 0.15, 1)
    tell.asked("c1", "cas", 0.2, 0.3, [1, 2], "fail", error=22)
    tell.asked("c1", "append", 0.35, 0.4, "ab")
    tell.asked("c1", "read", 0.5, 0.6, answer=None)
    tell.asked("c1", "write", 0.65, 0.7, 4, "info")
    tell.asked("c1.1", "write", 0.8, None, 5)
    return tell.done(1.0)


def one_event() -> Story:
    story = Story(("n1",), end=0.5)
    story.events.append(Happened("note", "n1", 0.25, "only this"))
    return story


def nasty_text() -> Story:
    long = "x" * 10_000
    tell = Telling('n"1"', "n<2>", "näme & sön 🙂 of a node with a very long name", "c1",
                   title='A "title" with <b>tags</b> & 🙂 ]]> ' + "and more " * 60,
                   subtitle="sub <i>title</i> \x00\x1b \ud800 " + "long " * 400)  # fmt: skip
    tell.send('n"1"', "n<2>", 0.1, 0.2, '<script>alert("1")</script>', key="<&>\"'", value=long)
    tell.send("n<2>", 'n"1"', 0.3, 0.4, "emoji 🙂🙂🙂", text="\x07\ud83d control", value={"a": [1, {"b": long}]})
    tell.send("n<2>", 'n"1"', 0.5, 0.6, "", value=None, ok=True, z=float("nan"))
    tell.send("ghost", "other ghost", 0.5, 0.6, "x")
    tell.send("ghost", "n<2>", 0.55, 0.6, "x")
    tell.event("write", "n<2>", 0.3, "k = " + long)
    tell.event("note", 'n"1"', 0.7, '<b>"note"</b> & 日本語のテキスト ' + long)
    tell.event("state", "n<2>", 0.7, "role = <leader> & 🙂, x = " + long)
    tell.event("timer", "nobody", 0.7, "t")
    tell.fault("loss", 0.1, 0.4, ('n"1"', "nobody"), text="<loss> & " + long)
    tell.fault("partition", 0.5, float("inf"), ('n"1"',), ("n<2>", "näme & sön 🙂 of a node with a very long name"))
    tell.asked("c1", "write", 0.2, 0.3, "<" + long)
    tell.asked("c9 <new>", "a strange f" * 20, 0.2, 0.6, {"<": [long]})
    story = tell.done(0.8)
    story.words = ["<words> & \x00"]
    return story


STORIES: dict[str, Callable[[], Story]] = {
    "quorum": quorum_read_that_goes_back,
    "partition": partition_with_a_blocked_minority,
    "two phases": coordinator_crash,
    "election": election,
    "gossip": gossip,
    "everything": everything,
    "one event": one_event,
    "nasty": nasty_text,
    "empty": lambda: Story(()),
    "empty steps": lambda: Story(("n1",), "step"),
}
