"""How many messages a poll takes: a run in which nothing else happens, with polls and without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from grader import tally
from grader.exercises.common.nodes import skewed
from grader.exercises.common.scenes import Script
from grader.exercises.replicated_log.judging import unsafe
from grader.exercises.replicated_log.scene import AGREED, Logs, told
from grader.exercises.replicated_log.service import sent_before
from grader.nodes.bench import NodeBench
from grader.nodes.network import Network
from grader.nodes.plan import Plan, Played
from grader.nodes.sim import cluster, messages_between
from grader.says import at, counted
from grader.trace.story import Sent, Story
from grader.verdict import Diagnosis

MOST = 2
WINDOW = 2.0  # seconds
HOP = 0.02  # seconds that every message takes, so that a poll changes nothing else


def cheap(bench: NodeBench, kind: str) -> Story:
    """A check: each poll of acknowledged data adds at most two messages to those of the 2 s in which it is asked."""
    plans = [
        Plan(
            skewed(cluster(size, kind), bench.rng(f"clocks {size}")), seed=seed, network=Network(HOP, HOP), until=60.0,
            label=f"{size} nodes, all messages take 20 ms, nothing happens but polls",
        )
        for size, seed in zip((3, 5), bench.seeds("quiet", 2), strict=True)
    ]  # fmt: skip

    def judge(played: Played) -> Diagnosis | None:
        scene: Logs = played.notes
        wrong = unsafe(scene) or scene.found
        if wrong is not None:
            return wrong
        other = bench.play(replace(played.plan), _prepared(bench, False))
        return _compared(bench, scene, other.notes)

    return bench.hold(plans, judge, _prepared(bench, True))


def _prepared(bench: NodeBench, polls: bool) -> Callable[[Played], None]:
    def prepare(played: Played) -> None:
        played.notes = Logs(played, bench)
        played.notes.play(_script(played.notes, polls))

    return prepare


def _script(scene: Logs, polls: bool) -> Script:
    yield from sent_before(scene, 4)
    yield from scene.pause(AGREED)
    scene.noted = []
    for name in scene.names:
        begin = scene.sim.time
        asked = scene.poll(name, {"k": 1}) if polls else None
        scene.noted.append((begin, asked))
        yield from scene.pause(WINDOW)
        if asked is not None:
            yield from scene.served(asked)


def _compared(bench: NodeBench, scene: Logs, other: Logs) -> Diagnosis | None:
    if not other.noted or [begin for begin, _ in other.noted] != [begin for begin, _ in scene.noted]:
        return bench.found(
            "nondeterministic",
            "The same run without polls went another way even before the first poll. Handlers may depend only on "
            "what the node was given. Use self.random and self.now() instead of time, uuid, random or id().",
        )  # fmt: skip
    for begin, asked in scene.noted:
        with_it, without = _between(scene, begin), _between(other, begin)
        more = len(with_it) - len(without)
        tally.note("messages that a poll adds", more, MOST, "messages", where=f"{len(scene.names)} nodes")
        if more <= MOST:
            continue
        plain = {(sent.src, sent.dst, sent.type) for sent in without}
        extra = [sent for sent in with_it if (sent.src, sent.dst, sent.type) not in plain] or with_it[:more]
        story = scene.sim.story
        story.title, story.subtitle = "A poll that takes messages", scene.played.plan.label
        story.marked |= {sent.number for sent in extra}
        types = ", ".join(sorted({sent.type for sent in extra}))
        return bench.found(
            "too_many_messages",
            f"The {told(asked)} was sent at {at(begin)}, when nothing else happened and all messages had been "
            f"acknowledged more than 5 s before. In the 2 s from then on the {len(scene.names)} nodes sent each "
            f"other {len(with_it)} messages, and {len(without)} in the same run without the poll: "
            f"{counted(more, 'message')} more ({types}). At most {MOST} are allowed. A poll may return old data, so "
            "answer it from what this node knows to be safe.",
            extra[0].line, f"at most {MOST} more", f"{more} more",
        )  # fmt: skip
    return None


def _between(scene: Logs, begin: float) -> list[Sent]:
    sent = messages_between(scene.sim.story, scene.names)
    return [one for one in sent if begin < one.sent <= begin + WINDOW and not one.copy]
