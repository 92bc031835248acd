"""RaftNode(Node): N replicas of a key-value store that agree on one log.

Ongaro and Ousterhout 2014, "In search of an understandable consensus algorithm (extended version)", sections 5 and 8. What
is inside a message is the learner's: judged is who leads which term, and what clients are told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

from grader import tally
from grader.exercise import Check, Exercise
from grader.exercises.raft import leading as leading
from grader.exercises.raft import voting as votes
from grader.exercises.raft.acts import AVAILABLE, COMPLETE, DURABLE, FIGURE_8, FORWARDED, LATE, READS, VOTES, Act
from grader.exercises.raft.judging import unsafe
from grader.exercises.raft.random_plans import TRIES, TROUBLED, WHY_RANDOM, plans
from grader.exercises.raft.scene import Scene
from grader.lost import Lost
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Asked
from grader.nodes.plan import Plan, Played
from grader.nodes.sim import Member, cluster, messages_between
from grader.says import listed
from grader.trace.story import Story
from grader.verdict import Diagnosis
from grader.worlds.nodes import Nodes

NODE = "RaftNode"
TOO_SOON = 0.05  # seconds: the longest delay of a message
Judge = Callable[[Scene], Diagnosis | None]


def _played(bench: NodeBench, act: Act, first: Judge = lambda _: None, then: Judge = lambda _: None) -> Story:
    """Play an act, again and again. One leader a term and answers that one order explains are wanted of each run; what
    `first` finds wrong goes before that, what `then` does after."""

    def drawn() -> Iterator[Plan]:
        label = getattr(act.script, "__name__", act.label)
        rng = bench.rng(f"sizes {label}")
        for number, seed in enumerate(bench.seeds(label, act.runs)):
            members = _skewed(cluster(act.sizes[number % len(act.sizes)], NODE), rng.random())
            yield Plan(members, seed=seed, until=90.0, label=act.label)

    def prepare(played: Played) -> None:
        played.notes = Scene(played, bench)
        played.notes.play(act.script(played.notes))

    def judge(played: Played) -> Diagnosis | None:
        scene: Scene = played.notes
        why = act.why and f"The rule that this run tests: {act.why}"
        return first(scene) or unsafe(scene, why, act.lost) or scene.found or then(scene)

    return bench.hold(drawn(), judge, prepare)


def _skewed(members: Iterable[Member], chance: float) -> tuple[Member, ...]:
    """Nodes whose clocks are far apart, and a little fast or slow."""
    return tuple(
        replace(one, offset=1000 * ((chance * (7 + place)) % 1), rate=0.995 + 0.01 * ((chance * (3 + place)) % 1))
        for place, one in enumerate(members)
    )


def _acts(acts: tuple[Act, ...]) -> Callable[[NodeBench], Story]:
    """A check that plays scripts, and shows the first."""
    return lambda bench: bench.side_by_side(*(partial(_played, bench, act) for act in acts))[0]


# ---- leaders


def _elects(bench: NodeBench) -> Story:
    took: list[leading.Elections] = [[], [], []]
    acts = (
        Act(partial(leading.elections, notes=took[0]), "elections", (3, 5, 4), 4),
        Act(partial(leading.in_step, notes=took[1]), "all messages take 50 ms", (3,), 2),
        Act(partial(leading.hammered, notes=took[2]), "an election under load", (3,), 2),
    )
    few = Act(leading.no_majority, "no majority can talk", (4, 3, 5), 3)
    first, *_ = bench.side_by_side(
        *(partial(_played, bench, act) for act in acts), partial(_played, bench, few, _of_few)
    )
    elections = list(chain(*took))
    late = [(what, seconds) for what, seconds in elections if seconds is not None and seconds > leading.BOUND]
    if len(late) > 1:  # once in so many elections is bad luck
        what, seconds = late[0]
        raise Lost(
            bench.found(
                "not_available",
                f"{len(late)} of {len(elections)} elections took longer than {leading.BOUND:g} s. {what}: a leader after "
                f"{seconds:.2f} s. Choose shorter election timeouts, or a wider range of them, so that two nodes seldom "
                "draw nearly the same.",
                None, f"a leader within {leading.BOUND:g} s", f"{seconds:.2f} s",
            )
        )  # fmt: skip
    return first


def _of_few(scene: Scene) -> Diagnosis | None:
    """A leader whom no majority can have elected."""
    if not scene.noted:
        return None
    name, term, when, group = scene.noted
    reached = "only to " + listed([one for one in group if one != name]) if group[1:] else "to no other node"
    return scene.bench.found(
        "wrong_result",
        f"{name} was leader of term {term} at {when:.2f} s, although since the start it could talk {reached}. "
        f"{len(group)} of {len(scene.names)} nodes are no majority. A candidate wins only with more than half of all votes.",
        expected="no leader without a majority", got=f"{name} leads term {term}",
    )  # fmt: skip


def _quiet(bench: NodeBench) -> Story:
    acts = []
    for load, restart in ((False, False), (True, False), (False, True)):
        label = "with clients" if load else "a follower was down for 0.2 s" if restart else "nothing happens"
        acts.append(Act(partial(leading.quiet, load=load, restart=restart), label, (3, 5), 2))
    return bench.side_by_side(*(partial(_played, bench, act, then=_stood) for act in acts))[0]


def _stood(scene: Scene) -> Diagnosis | None:
    """Somebody who stood though a leader reached all."""
    window: leading.Window = scene.noted
    sent = scene.sim.story.sent
    for message in sent:
        if message.type != "request_vote" or not window.begin < message.sent <= window.end:
            continue
        began = max(
            e.at for e in scene.sim.story.events
            if e.node == message.src and e.what in ("start", "restart") and e.at <= message.sent
        )  # fmt: skip
        heard = [
            m.arrived for m in sent
            if m.dst == message.src and m.type == "append_entries" and m.fate == "delivered"
            and m.arrived is not None and began <= m.arrived < message.sent
        ]  # fmt: skip
        advice = (
            "Start the election timeout anew on every append_entries. The shortest timeout must be longer than the time "
            "between two append_entries plus 50 ms of delay."
        )
        if heard:
            since = message.sent - max(heard)
            gap = f"{since:.3f} s after the last append_entries"
            if since < TOO_SOON:
                advice = (
                    "An election timeout must be longer than that. Start it anew on every append_entries of the current "
                    "term, before any other check of the message."
                )
        elif began > 0:
            gap = f"{message.sent - began:.3f} s after its restart and before any append_entries reached it again"
            advice = "A node that restarts is a follower. It stands only when no leader has reached it for an election timeout."
        else:
            gap = "before any append_entries"
        others = {
            "nothing happens": "Nothing else happened in this run.",
            "with clients": "A client sent writes meanwhile.",
        }
        meanwhile = others.get(scene.played.plan.label, "A follower was down for 0.2 s.")
        scene.sim.story.marked.add(message.number)
        return scene.bench.found(
            "wrong_result",
            f"{message.src} stood for election at {message.sent:.3f} s{scene.bench.source.quote(message.line)}, {gap}. "
            f"{window.leader} was leader of term {window.term} and could reach all nodes. {meanwhile} {advice}",
            line=message.line, expected="no election while a leader reaches all",
            got=f"request_vote of term {message.body.get('term')}",
        )  # fmt: skip
    return None


def _idle(bench: NodeBench) -> Story:
    act = Act(partial(leading.quiet, load=False, restart=False), "nothing happens", (3, 5), 2)
    return _played(bench, act, _chattered)


def _chattered(scene: Scene) -> Diagnosis | None:
    """More messages than it takes to stay leader."""
    names, window = scene.names, scene.noted
    between = [
        m for m in messages_between(scene.sim.story, names) if window.begin < m.sent <= window.end and not m.copy
    ]
    rate, most = len(between) / (window.end - window.begin or 1), 50 * (len(names) - 1)
    tally.note("messages per second without clients", rate, most, "messages", where=f"{len(names)} nodes")
    if scene.found is not None or rate <= most:
        return None
    [((src, kind), count)] = Counter((m.src, m.type) for m in between).most_common(1)
    return scene.bench.found(
        "too_many_messages",
        f"Without any client {len(names)} nodes sent each other {rate:.0f} messages per second, and {most} are allowed. "
        f"{count} of {len(between)} were {kind} of {src}. Send fewer: a heartbeat every 50 ms to each follower and its reply "
        f"are {40 * (len(names) - 1)} per second.",
        line=between[0].line, expected=f"at most {most} a second", got=f"{rate:.0f}",
    )  # fmt: skip


def _votes(bench: NodeBench) -> Story:
    """Searches are first: they show the shortest way."""
    acts = [partial(_played, bench, act) for act in VOTES]
    return bench.side_by_side(*votes.elections(bench, NODE), *acts)[-len(acts)]


# ---- service


def _serves(bench: NodeBench) -> Story:
    return _played(bench, Act(leading.serves, "one client, no faults", (3,), 3), _misserved)


def _misserved(scene: Scene) -> Diagnosis | None:
    if scene.noted is None:
        return None
    asked, expected = scene.noted
    body = {name: value for name, value in asked.ask.body.items() if name != "type"}
    got = "no answer within 2 s" if asked.answer is None else repr(asked.answer)
    why = scene.stood(asked.sent) if asked.answer is None else _of_another_key(scene, asked)
    did = "did not answer within 2 s" if asked.answer is None else f"answered {got}"
    return scene.bench.found(
        "not_available" if asked.answer is None or asked.answer.get("code") == 11 else "wrong_result",
        f"{asked.ask.node} {did} when it was sent {asked.ask.body['type']} {body} at {asked.sent:.3f} s, without any fault. "
        f"Answer {expected}.{why}",
        line=asked.reply.line if asked.reply else None, expected=expected, got=got[:200],
    )  # fmt: skip


def _of_another_key(scene: Scene, asked: Asked) -> str:
    """In words, with a space before them, if a read returned what was written to 1 for "1", or the other way round."""
    key, value = asked.ask.body["key"], (asked.answer or {}).get("value")
    done = (one.ask.body for client in scene.clients for one in client.done if one.ask.body["type"] != "read")
    keys = [body["key"] for body in done if value is not None and body.get("value", body.get("to")) == value]
    keys = [other for other in keys if str(other) == str(key)]
    if asked.ask.body["type"] != "read" or not keys or key in keys:
        return ""
    return f" This value was written to the key {keys[0]!r}. A number and a text are two keys."


def _linearizable(bench: NodeBench) -> Story:
    def prepare(played: Played) -> None:
        scene, last = Scene(played, bench), list[Asked]()
        played.notes = scene, last
        for time in (TROUBLED + 3.2, TROUBLED + 4.2):
            played.sim.at(time, lambda: last.append(scene.ask("leader", "read")))

    def judge(played: Played) -> Diagnosis | None:
        scene, last = played.notes
        found = unsafe(scene, WHY_RANDOM)
        if found is None and not any(asked.answer and asked.answer.get("code") in (None, 20) for asked in last):
            went = {asked.request.dst for asked in last if asked.request}
            return bench.found(
                "not_available",
                f"All nodes and links were whole again at {TROUBLED:g} s, but no read that was sent to the leader "
                f"({listed(sorted(went)) or 'nobody'}) at {' and '.join(f'{asked.sent:g} s' for asked in last)} "
                f"returned a value.{scene.stayed()} After the faults a leader must answer reads again.",
                None, "read_ok", "no answer",
            )  # fmt: skip
        return found

    acts = [partial(_played, bench, act) for act in FORWARDED]
    return bench.side_by_side(*acts, partial(bench.hold, plans(bench, NODE), judge, prepare, TRIES))[-1]


EXERCISE = Exercise(
    name="raft",
    chapter="12",
    title="A store that survives its leader",
    minutes=180,
    difficulty=3,
    cost="seconds",
    world=Nodes((NODE,), watched=("role", "current_term", "commit_index")),
    checks=(
        Check("elects", "Crashes, cuts, load: a leader within 3 s, never without a majority", 3, _elects),
        Check("serves", "read, write and cas at every node, errors 20 and 22", 3, _serves),
        Check("quiet", "Nobody stands while a leader reaches all, delays to 50 ms", 2, _quiet),
        Check("idle", "At most 50 (N-1) messages a second when nothing happens", 2, _idle),
        Check("available", "Goes on with a minority down, and serves when all is whole again", 2, _acts(AVAILABLE)),
        Check("votes", "Crashes inside an election: one vote a term, one leader a term", 3, _votes),
        Check("durable", "Crashes right after an acknowledgement: what is confirmed is kept", 3, _acts(DURABLE)),
        Check("complete", "Cuts and crashes: only who has what is confirmed is elected", 3, _acts(COMPLETE)),
        Check("figure8", "Cuts and crashes: entries of earlier terms, as in figure 8", 2, _acts(FIGURE_8)),
        Check("late", "Messages that arrive late or twice: answers and entries of earlier terms", 3, _acts(LATE)),
        Check("reads", "Cuts, pauses, late messages: reads are never out of date", 2, _acts(READS)),
        Check("linearizable", "Random cuts, crashes, drops, duplicates: one order explains it", 2, _linearizable),
    ),
)
