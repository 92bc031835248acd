"""Scripts about leaders: how soon there is one, that it stays, that it serves; and what is measured of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from grader.exercises.common.scenes import Script, Stuck, has_answer
from grader.exercises.raft.scene import KEPT_SHORT, Scene
from grader.nodes.network import Network
from grader.trace.story import Sent

BOUND = 3.0  # seconds to a leader
WINDOW = 2.0  # seconds of a quiet run
EQUAL = 0.05  # seconds that a message takes where all take as long
SETTLED = 5.0  # seconds after which nobody may stand any more, if a leader was there within the bound


Elections = list[tuple[str, float | None]]  # how long elections took: what for, and seconds; None for none at all


def _election(scene: Scene, notes: Elections, what: str, among: list[str], above: int = -1) -> Script:
    since = scene.sim.time
    name = yield from scene.elected(among, 2 * BOUND, above)
    notes.append((what, None if name is None else scene.sim.time - since))
    if name is None:
        raise no_leader(scene, what, since)
    return name


def no_leader(scene: Scene, what: str, since: float) -> Stuck:
    """For `2 * BOUND` there was no leader."""
    asked = [m for m in scene.sim.story.sent if m.type == "request_vote" and m.sent >= since]
    terms = sorted({term for m in asked if isinstance(term := m.body.get("term"), int)})
    roles = {scene.sim.state(name).get("role") for name in scene.names}
    if not asked:
        why = "No node sent a request_vote. Set an election timer, also after a restart, and let only append_entries and a "
        why += "vote that the node gives start it anew."
    elif not roles & {"leader", "follower", "candidate"}:
        why = f"The attribute role is {', '.join(sorted(map(repr, roles)))}. Set it to 'follower', 'candidate' or 'leader'."
    elif len(terms) > 3:
        together = _together(asked)
        why = f"Nodes stood for election in {len(terms)} terms, {terms[0]} to {terms[-1]}, and none won. "
        why += (
            "In most terms candidates stood before a request_vote could arrive, within 50 ms of each other. Draw each election "
            "timeout at random from a wide range, and draw again for each election."
            if together else "Check that timeouts leave 100 ms for replies, and that voters vote for a candidate of a new term."
        )  # fmt: skip
    else:
        why = f"There were {len(asked)} request_vote messages in term{'s' * (len(terms) > 1)} {', '.join(map(str, terms))}. "
        why += "Check how nodes answer them, and how a candidate counts the votes."
    return scene.stuck(
        f"{what}: from {since:.2f} s to {scene.sim.time:.2f} s there was no leader, although a majority was up and could talk. "
        f"{why}", f"a leader within {BOUND:g} s", "none",
    )  # fmt: skip


def _together(asked: list[Sent]) -> bool:
    """Whether in most terms two stood at almost the same time."""
    first: dict[Any, dict[str, float]] = {}
    for message in asked:
        first.setdefault(message.body.get("term"), {}).setdefault(message.src, message.sent)
    close = [max(times.values()) - min(times.values()) <= EQUAL for times in first.values() if len(times) > 1]
    return sum(close) * 2 > len(first)


def elections(scene: Scene, notes: Elections) -> Script:
    """A leader at the start; again when it has crashed, when it is cut off, when all were cut off from all."""
    names = list(scene.names)
    size = f"{len(names)} nodes"
    first = yield from _election(scene, notes, f"{size}, at the start", names)
    yield from scene.pause(0.3)
    term = max(map(scene.term, names))
    scene.sim.crash(first)
    rest = [name for name in names if name != first]
    second = yield from _election(scene, notes, f"{size}, after the leader {first} crashed", rest, term)
    scene.sim.restart(first)
    yield from scene.pause(0.5)
    now = (yield from scene.elected()) or second
    rest = [name for name in names if name != now]
    term = max(map(scene.term, names))
    scene.cut((now,), rest)
    yield from _election(scene, notes, f"{size}, after the leader {now} was cut off", rest, term)
    scene.cut(*[(name,) for name in names])
    yield from scene.pause(1.0)
    term = max(map(scene.term, names))
    scene.sim.heal()
    yield from _election(scene, notes, f"{size}, after all links came back", names)


def in_step(scene: Scene, notes: Elections) -> Script:
    """The same where all messages take equally long: whose timers run out together ask for votes together, every time."""
    scene.sim.network = Network(EQUAL, EQUAL)
    yield from elections(scene, notes)


def hammered(scene: Scene, notes: Elections) -> Script:
    """The leader crashes while clients ask every node, thirty times a second."""
    first = yield from scene.settled()
    rest = [name for name in scene.names if name != first]
    on = [True]

    def again(number: int) -> None:
        if on[0]:
            for name in rest:
                body = {"type": "write", "key": "load", "value": number, "msg_id": number}
                scene.sim.request(f"c{name[1:]}", name, body)
            scene.sim.at(scene.sim.time + 1 / 30, lambda: again(number + 1))

    term = scene.term(first)
    scene.sim.crash(first)
    again(1)
    yield from _election(scene, notes, "Clients ask every node 30 times a second; after the leader crashed", rest, term)
    on[0] = False


def no_majority(scene: Scene) -> Script:
    """From the start on no majority can talk: nobody can win. Notes who did: leader, term, when, whom it reached."""
    names = list(scene.names)
    half = len(names) // 2
    groups = [group for group in (names[:half], names[half : 2 * half], names[2 * half :]) if group]
    scene.cut(*groups)
    found = yield from scene.elected(names, 2.0)
    if found is not None:
        group = next(group for group in groups if found in group)
        scene.noted = found, scene.term(found), scene.sim.time, group


# ---- a quiet run


@dataclass
class Window:
    """The quiet part of a run: when it began and ended, who led, and what was sent in it."""

    begin: float = 0.0
    end: float = 0.0
    leader: str = ""
    term: int = 0


def quiet(scene: Scene, load: bool, restart: bool) -> Script:
    """Nobody is hindered by anything for two seconds; with clients, or with a follower that was down for a moment. Notes
    the Window."""
    window = scene.noted = Window()
    yield from scene.settled()
    yield from scene.pause(max(0.0, SETTLED - scene.sim.time))
    leader = yield from scene.settled()
    followers = scene.others(leader)
    window.begin, window.leader, window.term = scene.sim.time, leader, scene.term(leader)
    end = scene.sim.time + WINDOW
    if restart:
        scene.sim.crash(followers[0])
        yield from scene.pause(0.2)
        scene.sim.restart(followers[0])
        end = scene.sim.time + WINDOW
    number = 0
    while load and scene.sim.time < end - 0.1:
        number += 1
        asked = scene.ask(leader, "write", value=f"load {number}")
        yield has_answer(asked), 0.1
        yield from scene.pause(0.02)
    yield from scene.pause(end - scene.sim.time)
    window.end = scene.sim.time


# ---- service


def _served(scene: Scene, node: str, kind: str, key: Any, **fields: Any) -> Script:
    """Ask a node, and the leader where it answers 11: the request with the answer, or with none."""
    asked = scene.ask(node, kind, key, **fields)
    until = scene.sim.time + KEPT_SHORT
    while True:
        yield has_answer(asked), max(0.01, until - scene.sim.time)
        eleven = asked.answer is not None and asked.answer.get("code") == 11
        if not eleven or scene.sim.time > until - 0.2:
            return asked
        if node == scene.leader():
            yield from scene.pause(0.1)
        node = scene.leader() or node
        asked = scene.ask(node, kind, key, **fields)


def serves(scene: Scene) -> Script:
    """Every operation at every node, against a dict. Notes the first that is not answered as it must be, and how."""
    leader = yield from scene.settled()
    nodes = [leader, *scene.others(leader)]
    store: dict[str, Any] = {}
    for number, (kind, key, fields) in enumerate(_operations(scene)):
        node = nodes[number % len(nodes)]
        expected = _expected(store, kind, key, fields)
        asked = yield from _served(scene, node, kind, key, **fields)
        if not _as_expected(kind, asked.answer, expected):
            scene.noted = asked, _words(kind, expected)
            return


def _operations(scene: Scene) -> list[tuple[str, Any, dict[str, Any]]]:
    values = ["one", "", [1, [2, "three"]], {"a": [1], "b": {"c": None}}, 3.5, "é\u2028", -(2**40), 7]
    scene.rng.shuffle(values)
    one, two, three, four, *_ = values
    values += [0, False]  # equal in Python, so no cas asks for them
    return [
        ("read", "x", {}), ("cas", "x", {"from": one, "to": two}), ("read", "x", {}),
        ("write", "x", {"value": one}), ("read", "x", {}), ("read", "x", {}), ("read", "y", {}),
        ("cas", "x", {"from": two, "to": three}), ("read", "x", {}),
        ("cas", "x", {"from": one, "to": three}), ("read", "x", {}), ("cas", "x", {"from": one, "to": two}),
        ("write", 1, {"value": two}), ("write", "1", {"value": three}), ("read", 1, {}), ("read", "1", {}),
        ("write", "y", {"value": four}), ("write", "x", {"value": two}), ("cas", "y", {"from": four, "to": four}),
        ("read", "y", {}), ("read", "x", {}), ("cas", 1, {"from": two, "to": one}), ("read", 1, {}), ("read", 2, {}),
        *[("write", f"k{number}", {"value": value}) for number, value in enumerate(values)],
        *[("read", f"k{number}", {}) for number in range(len(values))],
    ]  # fmt: skip


def _expected(store: dict[str, Any], kind: str, key: Any, fields: dict[str, Any]) -> Any:
    """What must be answered: ("ok", value) or ("error", code)."""
    place = json.dumps(key)  # 1 is not "1"
    if kind == "write":
        store[place] = fields["value"]
        return "ok", None
    if place not in store:
        return "error", 20
    if kind == "read":
        return "ok", store[place]
    if not _same(store[place], fields["from"]):
        return "error", 22
    store[place] = fields["to"]
    return "ok", None


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _as_expected(kind: str, answer: dict[str, Any] | None, expected: Any) -> bool:
    if answer is None:
        return False
    how, what = expected
    if answer.get("type") == "error":
        return bool(how == "error" and answer.get("code") == what)
    if answer.get("type") != f"{kind}_ok":
        return False
    if kind == "read":
        return _same(answer.get("value"), what) if how == "ok" else answer.get("value") is None
    return bool(how == "ok")


def _words(kind: str, expected: Any) -> str:
    how, what = expected
    if how == "error":
        return {20: "error 20 (there is no such key)", 22: "error 22 (the key holds another value)"}[what]
    return f"{kind}_ok" + (f" with {what!r}" if kind == "read" else "")


# ---- availability


def minority_down(scene: Scene) -> Script:
    """As many nodes as the cluster can do without crash, the leader among them or not."""
    yield from scene.done("write", value="before")
    leader = yield from scene.settled()
    down = [leader, *scene.others(leader)] if scene.rng.random() < 0.5 else scene.others(leader)
    for name in down[: (len(scene.names) - 1) // 2]:
        scene.sim.crash(name)
    up = scene.sim.up()
    for number in range(3):
        yield from scene.done("write", among=up, value=f"with a minority down {number}")
    yield from scene.done("cas", among=up, **{"from": "with a minority down 2", "to": "by cas"})
    yield from scene.done("read", among=up)


def deposed(scene: Scene) -> Script:
    """A follower that lags behind, and has stood in vain, deposes the leader while the other follower is down: it cannot win
    itself."""
    yield from scene.done("write", value="before")
    yield from scene.pause(0.4)
    a = yield from scene.settled()
    f, g = scene.others(a)
    scene.cut((f,), (a, g))
    asked = scene.ask(a, "write", value="missed by one")
    yield has_answer(asked), KEPT_SHORT
    yield from scene.pause(1.2)
    term = scene.term(a)
    scene.sim.crash(g)
    scene.sim.heal()
    if scene.term(f) > term:  # it may ask first whether it could win
        yield from scene.settled((a, f), above=term)
    yield from scene.done("write", "y", among=(a, f), value="after that")


def healed(scene: Scene) -> Script:
    """A leader that was cut off, with requests that it could not confirm, is back: every node serves."""
    yield from scene.done("write", value="before")
    a = yield from scene.settled()
    others = scene.others(a)
    scene.cut((a,), others)
    for number in range(3):
        scene.ask(a, "write", "y", value=f"cut off {number}")
    new = yield from scene.settled(others, above=scene.term(a))
    yield from scene.done("write", among=others, value="meanwhile")
    scene.sim.heal()
    new = yield from _every_node_serves(scene, a)
    for name in scene.names:
        scene.sim.crash(name)
    yield from scene.pause(0.3)
    for name in scene.names:
        scene.sim.restart(name)
    yield from _every_node_serves(scene, new)


def _every_node_serves(scene: Scene, was: str) -> Script:
    """Three seconds on there is one leader, and each node answers or sends clients away. The leader's name."""
    yield from scene.pause(BOUND)
    yield from scene.settled()
    yield (lambda: sum(scene.role(name) == "leader" for name in scene.names) == 1), BOUND
    leaders = [name for name in scene.names if scene.role(name) == "leader"]
    if len(leaders) != 1:
        terms = " and ".join(f"{name} (term {scene.term(name)})" for name in leaders) or "no node"
        raise scene.stuck(
            f"At {scene.sim.time:.2f} s, {2 * BOUND:g} s after all links and nodes were back, {terms} had role = 'leader', and "
            "exactly one node should have it. A leader that sees a higher term, in any message or reply, must step down.",
            "one leader", f"{len(leaders)} leaders",
        )  # fmt: skip
    for name in [was, *scene.others(was)]:
        for kind, fields in (("write", {"value": f"at {name} at {scene.sim.time:.2f} s"}), ("read", {})):
            asked = yield from _served(scene, name, kind, "x", **fields)
            answer = asked.answer or {}
            if answer.get("type") != f"{kind}_ok":
                got = "no answer" if asked.answer is None else f"error {answer.get('code')}"
                did = f"did not answer within {KEPT_SHORT:g} s" if asked.answer is None else f"answered {got}"
                todo = f"The leader is {leaders[0]}. Every other node must forward the request, or answer error 11."
                if asked.ask.node == leaders[0]:
                    todo = f"{leaders[0]} was the leader.{scene.stood(asked.sent)} A leader that reaches a majority must serve requests."
                raise scene.stuck(
                    f"{asked.ask.node} {did} when it was sent a {kind} at {asked.sent:.2f} s, {BOUND:g} s or more after all was "
                    f"whole again. {todo}",
                    f"{kind}_ok within {KEPT_SHORT:g} s", got,
                )  # fmt: skip
    return leaders[0]
