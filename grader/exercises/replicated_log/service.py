"""Scripts without faults, and with a minority away: what is answered, in time, and by how many messages."""

from __future__ import annotations

from functools import partial
from typing import Any

from grader.exercises.common.scenes import Script, carries, has_answer
from grader.exercises.replicated_log.scene import AGREED, KEY, TAKEN_OVER, Logs
from grader.nodes.clients import Asked
from grader.trace.story import Sent

MESSAGES: tuple[Any, ...] = (
    "a", "a", "", 0, 1, True, False, -7, 2.5, [], {}, [1, [2, None]], {"offset": 3, "msgs": {"k": []}}, "null", "snow \u2603 \U0001f600",
    10**15, {"type": "send_ok", "term": 10**6, "key": "x"}, ["a", 0], "x" * 300, {"": ""},
)  # fmt: skip
KEYS = (
    "k", "", "a/b", "a:b", "0", "log", "term", "committed", "__class__", "\u00fcber key", "k ", "K", "offsets", "n1", "null",
    "log:k", "entries",
)  # fmt: skip


def everything(scene: Logs) -> Script:
    """Messages of every shape, keys of every name, each request at each node; then consumers read all."""
    yield from scene.pause(TAKEN_OVER)
    names = scene.others()
    place = 0

    def node() -> str:
        nonlocal place
        place += 1
        return names[place % len(names)]

    for empty in ({"type": "poll", "offsets": {}}, {"type": "list_committed_offsets", "keys": []},
                  {"type": "commit_offsets", "offsets": {}}):  # fmt: skip
        yield from scene.served(scene.request(node(), empty))
    for name in names:
        yield from scene.served(scene.poll(name, {KEY: 0, "never": 7}), scene.list(name, KEY, "never"))
    sent: list[Asked] = []
    for number, message in enumerate(MESSAGES):
        sent += [scene.send(node(), message), scene.send(node(), message, KEYS[number % len(KEYS)])]
        if number % 4 == 3:
            yield from scene.served(*sent)
    yield from scene.served(*sent)
    yield from scene.served(*(scene.commit(node(), number, key) for number, key in enumerate(KEYS)))
    for name in names:
        yield from scene.served(scene.list(name, *KEYS, "never"))
    # requests about several keys, also about one that has no message; the second is too low for one key only
    for offsets in ({"x": 3, "y": 0, KEY: 10}, {"x": 2, "y": 5, KEY: 11}):
        yield from scene.served(scene.request(node(), {"type": "commit_offsets", "offsets": offsets}))
        yield from scene.served(*(scene.list(name, "y", "x", KEY) for name in names))
    yield from scene.pause(AGREED)
    for asked in sent[::3]:
        offset, key = (asked.answer or {}).get("offset"), asked.ask.body["key"]
        if isinstance(offset, int):
            yield from scene.served(scene.poll(node(), {key: offset}), scene.poll(node(), {key: offset + 1, "x": 0}))
    yield from scene.served(scene.poll(node(), {KEY: 10**6}))
    yield from scene.consume(names, KEYS, final=True)


def at_once(scene: Logs) -> Script:
    """A client at each node sends to the same logs, each as soon as it was answered; then one after another at all nodes."""
    yield from scene.pause(TAKEN_OVER)
    names = scene.others()
    for _ in range(4):
        some = [scene.send(name, key=key) for name in names for key in (KEY, "other")]
        polls = [scene.poll(name, {KEY: 0, "other": 0}) for name in names]
        yield from scene.served(*some, *polls)
    for number in range(3 * len(names)):
        yield from scene.served(scene.send(names[number % len(names)]))
    open_ones: list[Asked] = []
    for _ in range(12):  # a stream of them, which no one waits for
        open_ones.append(scene.send(scene.rng.choice(names)))
        yield from scene.pause(scene.rng.uniform(0.0, 0.03))
    yield from scene.served(*open_ones)
    yield from scene.pause(AGREED)
    yield from scene.consume(names, (KEY, "other"), final=True)


def early(scene: Logs) -> Script:
    """Requests from the very start on; those from 3 s on are due."""
    for _ in range(5):
        for name in scene.names:
            scene.send(name)
        yield from scene.pause(0.59)
    yield from scene.pause(max(0.0, TAKEN_OVER - scene.sim.time))
    yield from scene.served(*(scene.send(name) for name in scene.names), *(scene.list(name) for name in scene.names))
    yield from scene.ended()


# ---- a minority is away


def _served_at(scene: Logs, names: list[str]) -> Script:
    """Each request at each of these nodes is due."""
    for name in names:
        yield from scene.served(scene.send(name), scene.commit(name, scene.rng.randint(1, 99)), scene.list(name))
        yield from scene.served(scene.poll(name))


def each_away(scene: Logs, down: bool) -> Script:
    """Each node in turn is away, by a crash or by a cut (with five, two at a time): the others serve. Then all do."""
    yield from scene.pause(TAKEN_OVER)
    few, names = (len(scene.names) - 1) // 2, scene.others()
    for start in range(len(names) if few == 1 else 2):
        away = [names[(start * few + n) % len(names)] for n in range(few)]
        if start == 0:
            hub, rest = yield from scene.led()
            away = [hub, *rest[: few - 1]]
        there = [name for name in scene.names if name not in away]
        if down:
            for name in away:
                scene.sim.crash(name)
        else:
            scene.cut(away, there)
            for name in away:  # they get no majority, and must not be in the way of what comes later
                scene.send(name)
                scene.list(name)
        yield from scene.pause(TAKEN_OVER)
        yield from _served_at(scene, there)
        scene.whole()
        yield from scene.pause(TAKEN_OVER)
        yield from _served_at(scene, list(scene.names))


def asked_too_early(scene: Logs, led: bool) -> Script:
    """Nobody reaches a majority, all are asked; 3 s after all is whole everything is served. If not `led`, that is so from
    the start on, and no node has ever led: each of them has tried in vain for as long."""
    if led:
        yield from scene.pause(TAKEN_OVER)
    scene.cut(*((name,) for name in scene.names))
    yield from scene.pause(0.2)
    for _ in range(3):
        for name in scene.names:
            scene.send(name)
            scene.commit(name, 5)
            scene.list(name)
        yield from scene.pause(4.0)
    scene.whole()
    yield from scene.pause(TAKEN_OVER)
    yield from _served_at(scene, list(scene.names))


def first_word_lost(scene: Logs) -> Script:
    """Nothing is wrong, but the first message that holds a request is lost: the asked node has to send it again."""
    yield from scene.led()
    for name in scene.others() * 2:
        message = scene.fresh()
        lost: list[Sent] = []
        scene.dropped["first"] = partial(_first_with, message, lost)
        yield from scene.served(scene.send(name, message))
        scene.dropped.clear()
    yield from scene.ended()


def _first_with(message: str, lost: list[Sent], sent: Sent) -> bool:
    """Whether this is the first message between nodes that holds it. `lost` keeps that one."""
    if sent.src != sent.dst and not lost and carries(sent, message):
        lost.append(sent)
    return any(sent is one for one in lost)


# ---- all know all in the end


def catches_up(scene: Logs, down: bool) -> Script:
    """A node was away while others took many messages, also the first ones of its own logs."""
    _, names = yield from scene.led()
    away = names[0]
    there = [name for name in scene.names if name != away]
    yield from scene.served(scene.send(away))  # it has been asked before, too
    if down:
        scene.sim.crash(away)
    else:
        scene.cut((away,), there)
    yield from scene.pause(TAKEN_OVER)
    for number in range(20):
        asked = [scene.send(there[number % len(there)], key=key) for key in (KEY, "x", "y", "z") * 2]
        yield from scene.served(*asked)
    yield from scene.served(scene.commit(there[0], 9))
    yield from scene.ended((KEY, "x", "y", "z"))
    yield from scene.served(*(scene.list(name) for name in scene.names))


def nobody_asks(scene: Logs) -> Script:
    """The node that leads crashes in the step in which it acknowledges a message that all have, and nobody sends anything
    after it."""
    hub, _ = yield from scene.led()
    asked = yield from scene.sent_in_silence(hub, hub, scene.fresh())
    off = scene.crash_with_answer(asked)
    yield has_answer(asked), 2.4
    off()
    yield from scene.pause(TAKEN_OVER)
    yield from scene.ended()


# ---- how many messages a poll takes


def sent_before(scene: Logs, count: int) -> Script:
    """So many messages at all nodes, to be polled when nothing else happens."""
    yield from scene.pause(TAKEN_OVER)
    for number in range(count):
        yield from scene.served(scene.send(scene.names[number % len(scene.names)]))
