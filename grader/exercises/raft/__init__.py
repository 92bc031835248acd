"""RaftNode(Node): N replicas of a key-value store that agree on one log.

Ongaro and Ousterhout 2014, "In search of an understandable consensus algorithm (extended version)", sections 5 and 8. What
is inside a message is the learner's: judged is who leads which term, and what clients are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from grader.exercise import Check, Exercise
from grader.exercises.raft import leading as leading
from grader.exercises.raft import logs as log
from grader.exercises.raft import voting as votes
from grader.exercises.raft.explored import elections
from grader.exercises.raft.judging import Watch, unsafe
from grader.exercises.raft.random_plans import TRIES, TROUBLED, WHY_RANDOM, plans
from grader.exercises.raft.scene import Scene, Script
from grader.lost import Lost
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Asked
from grader.nodes.plan import Plan, Played
from grader.nodes.sim import Member, cluster
from grader.trace.story import Sent, Story
from grader.verdict import Diagnosis
from grader.worlds.nodes import Nodes

NODE = "RaftNode"


@dataclass(frozen=True)
class Act:
    """A script, the cluster it is for, and why what it shows would be wrong."""

    script: Callable[[Scene], Script]
    label: str
    sizes: tuple[int, ...] = (3,)
    runs: int = 2
    why: str = ""
    lost: bool = False  # whether what a read does not find was forgotten


class Stage:
    """Plays an act, again and again."""

    def __init__(self, bench: NodeBench, act: Act) -> None:
        self.nodes: NodeBench = bench
        self.act = act

    def plans(self) -> Iterator[Plan]:
        label = self.act.script.__name__ if hasattr(self.act.script, "__name__") else self.act.label
        rng = self.nodes.rng(f"sizes {label}")
        for number, seed in enumerate(self.nodes.seeds(label, self.act.runs)):
            size = self.act.sizes[number % len(self.act.sizes)]
            members = skewed(cluster(size, NODE), rng.random())
            yield Plan(members, seed=seed, until=90.0, label=self.act.label)

    def prepare(self, played: Played) -> None:
        scene = Scene(played, self.nodes.rng(f"scene {played.plan.seed}"))
        played.notes = scene, Watch(played.sim)
        scene.play(self.act.script(scene))

    def judge(self, played: Played) -> Diagnosis | None:
        scene, watch = played.notes
        found = unsafe(self.nodes, scene, watch, self.act.why, self.act.lost) or scene.found
        return found and replace(found, file=self.nodes.file)

    def hold(self, judge: Callable[[Played], Diagnosis | None] | None = None) -> Story:
        return self.nodes.hold(self.plans(), judge or self.judge, self.prepare)


def skewed(members: Iterable[Member], chance: float) -> tuple[Member, ...]:
    """Nodes whose clocks are far apart, and a little fast or slow."""
    chosen = list(members)
    return tuple(
        replace(one, offset=1000 * ((chance * (7 + place)) % 1), rate=0.995 + 0.01 * ((chance * (3 + place)) % 1))
        for place, one in enumerate(chosen)
    )


def _acts(acts: tuple[Act, ...]) -> Callable[[NodeBench], Story]:
    """A check that plays scripts, and wants one leader a term and answers that one order explains."""

    def judge(bench: NodeBench) -> Story:
        stories = [Stage(bench, act).hold() for act in acts]
        return stories[0]

    return judge


# ---- leaders


def _elects(bench: NodeBench) -> Story:
    notes = leading.Elections()
    acts = (
        Act(partial(leading.elections, notes=notes), "elections", (3, 5, 4), 4),
        Act(partial(leading.hammered, notes=notes), "an election under load", (3,), 2),
        Act(leading.no_majority, "no majority can talk", (4, 3, 5), 3),
    )
    first: Story | None = None
    for act in acts:
        stage = Stage(bench, act)

        def judge(played: Played, stage: Stage = stage) -> Diagnosis | None:
            if stage.act.script is leading.no_majority and played.notes[0].noted:
                name, term, when, group = played.notes[0].noted
                return bench.found(
                    "wrong_result",
                    f"{name} was leader of term {term} at {when:.2f} s, though since the start it could talk to nobody but "
                    f"{', '.join(group)}: {len(group)} of {len(played.sim.names)} nodes are no majority.",
                    None, "no leader without a majority", f"{name} leads term {term}",
                )  # fmt: skip
            return stage.judge(played)

        story = stage.hold(judge)
        first = first or story
    late = [(what, took) for what, took in notes.took if took is not None and took > leading.BOUND]
    if len(late) > 1:  # once in so many elections is bad luck
        what, took = late[0]
        raise Lost(
            bench.found(
                "not_available",
                f"{len(late)} of {len(notes.took)} elections took longer than {leading.BOUND:g} s. {what}: a leader after "
                f"{took:.2f} s. How long are election timeouts, and how often do two nodes draw nearly the same?",
                None, f"a leader within {leading.BOUND:g} s", f"{took:.2f} s",
            )
        )  # fmt: skip
    assert first is not None
    return first


def _quiet(bench: NodeBench) -> Story:
    stories = []
    for load, restart in ((False, False), (True, False), (False, True)):
        stage = Stage(bench, Act(
            partial(leading.quiet, load=load, restart=restart),
            "with clients" if load else "a follower was down for 0.2 s" if restart else "nothing happens", (3, 5), 2,
        ))  # fmt: skip

        def judge(played: Played, stage: Stage = stage) -> Diagnosis | None:
            return stage.judge(played) or _stood(bench, played, stage.act.label)

        stories.append(stage.hold(judge))
    return stories[0]


def _stood(bench: NodeBench, played: Played, label: str) -> Diagnosis | None:
    """Somebody who stood though a leader reached all."""
    window: leading.Window = played.notes[0].noted
    sent = played.sim.story.sent
    for message in sent:
        if message.type != "request_vote" or not window.begin < message.sent <= window.end:
            continue
        heard = [
            m.arrived for m in sent
            if m.dst == message.src and m.type == "append_entries" and m.arrived is not None and m.arrived < message.sent
        ]  # fmt: skip
        gap = (
            f"{message.sent - max(heard):.3f} s after it had heard the leader" if heard else "it never heard the leader"
        )
        played.sim.story.marked.add(message.number)
        return bench.found(
            "wrong_result",
            f"{message.src} stood for election at {message.sent:.3f} s ({label}), {gap}, though {window.leader} was leader of "
            f"term {window.term} and reached all{bench.source.quote(message.line)}. The shortest election timeout must "
            "be longer than the time between two append_entries and 50 ms of delay, and each of them starts it anew.",
            message.line, "no election while a leader reaches all", f"request_vote of term {message.body.get('term')}",
        )  # fmt: skip
    return None


def _idle(bench: NodeBench) -> Story:
    stage = Stage(bench, Act(partial(leading.quiet, load=False, restart=False), "nothing happens", (3, 5), 2))

    def judge(played: Played) -> Diagnosis | None:
        scene, names = played.notes[0], played.sim.names
        window: leading.Window = scene.noted
        between = [
            m for m in played.sim.story.sent
            if m.src in names and m.dst in names and m.src != m.dst and window.begin < m.sent <= window.end and not m.copy
        ]  # fmt: skip
        rate, most = len(between) / (window.end - window.begin or 1), 50 * (len(names) - 1)
        if scene.found is not None or rate <= most:
            return stage.judge(played)
        busiest = _busiest(between)
        return bench.found(
            "too_many_messages",
            f"{len(names)} nodes that nobody asked anything sent {rate:.0f} messages a second to each other, allowed are "
            f"{most}; {busiest}. A heartbeat and its answer every 50 ms for each follower would be {40 * (len(names) - 1)}.",
            between[0].line, f"at most {most} a second", f"{rate:.0f}",
        )  # fmt: skip

    return stage.hold(judge)


def _busiest(messages: list[Sent]) -> str:
    counts: dict[tuple[str, str], int] = {}
    for message in messages:
        counts[message.src, message.type] = counts.get((message.src, message.type), 0) + 1
    (src, kind), count = max(counts.items(), key=lambda item: item[1])
    return f"{count} of {len(messages)} were {kind} of {src}"


def _votes(bench: NodeBench) -> Story:
    elections(bench, NODE)  # first: it shows the shortest way
    return _acts(VOTES)(bench)


# ---- service


def _serves(bench: NodeBench) -> Story:
    stage = Stage(bench, Act(leading.serves, "one client, no faults", (3,), 3))

    def judge(played: Played) -> Diagnosis | None:
        wrong: leading.Wrong = played.notes[0].noted
        asked = wrong.asked
        if asked is None:
            return stage.judge(played)
        body = {name: value for name, value in asked.ask.body.items() if name != "type"}
        got = "no answer within 2 s" if asked.answer is None else repr(asked.answer)
        line = next((m.line for m in reversed(played.sim.answers) if m.arrived == asked.answered), None)
        return bench.found(
            "not_available" if asked.answer is None or asked.answer.get("code") == 11 else "wrong_result",
            f"{asked.ask.node} was asked for {asked.ask.body['type']} {body} at {asked.sent:.3f} s, without any fault: {got}. "
            f"Expected: {wrong.expected}.",
            line, wrong.expected, got[:200],
        )  # fmt: skip

    return stage.hold(judge)


def _linearizable(bench: NodeBench) -> Story:
    def prepare(played: Played) -> None:
        scene = Scene(played, bench.rng(f"scene {played.plan.seed}"))
        last: list[Asked] = []
        played.notes = scene, Watch(played.sim), last
        for time in (TROUBLED + 3.2, TROUBLED + 4.2):
            played.sim.at(time, lambda: last.append(scene.ask("leader", "read")))

    def judge(played: Played) -> Diagnosis | None:
        scene, watch, last = played.notes
        found = unsafe(bench, scene, watch, WHY_RANDOM)
        if found is None and not any(asked.answer and asked.answer.get("code") in (None, 20) for asked in last):
            return bench.found(
                "not_available",
                f"All was whole again at {TROUBLED:g} s, and reads that the leader ({last[-1].ask.node if last else 'nobody'}) "
                f"was asked for at {' and '.join(f'{asked.sent:g} s' for asked in last)} were not answered.",
                None, "read_ok", "no answer",
            )  # fmt: skip
        return found

    stage = Stage(bench, FORWARDED)
    stage.hold()
    return bench.hold(plans(bench, NODE), judge, prepare, TRIES)


FORWARDED = Act(
    log.forwarded_again, "what a node forwards arrives twice", (3,), 2,
    "A client sends a request once, and it is done once: its msg_id grows with each request, which tells a copy.",
)  # fmt: skip
VOTES = (
    Act(votes.voter_restarts, "a voter crashes and restarts inside an election", (3,), 3),
    Act(votes.leader_restarts, "a leader crashes and restarts inside its term", (3,), 3),
    Act(votes.voter_asked_twice, "two candidates ask the same voter", (3,), 2),
)
DURABLE = (
    Act(
        log.follower_forgets, "a follower crashes right after it acknowledged", (3,), 3,
        "An entry is on the follower's disk before append_entries_res says that it has it.", True,
    ),
    Act(
        log.leader_forgets, "the leader crashes right after it confirmed", (3,), 2,
        "The leader's own log counts for the majority: it is on disk before the entry is sent.", True,
    ),
    Act(log.power_cut, "all nodes lose power", (3, 5), 2, "What is confirmed is on the disks of a majority.", True),
)  # fmt: skip
COMPLETE = (
    Act(
        log.lagging_follower_stands, "a node that lags behind asks for votes", (3,), 2,
        "A voter refuses a candidate whose log is less up to date than its own: compare the last entries' terms, then the "
        "lengths (section 5.4.1).", True,
    ),
    Act(
        log.long_log_stands, "a node with a longer, older log asks for votes", (3,), 2,
        "Of two logs the one whose last entry is of the later term is more up to date; only for equal terms the longer one "
        "(section 5.4.1).", True,
    ),
    Act(
        log.half, "the leader reaches no majority", (5, 4, 5), 3,
        "A majority is more than half of all nodes, the leader among them.", True,
    ),
)  # fmt: skip
FIGURE_8 = (
    Act(
        log.figure_8, "figure 8 of the paper", (5,), 3,
        "An entry of an earlier term is not committed because it is on a majority: only an entry of the leader's own term is "
        "committed by counting, and with it those before it (section 5.4.2, figure 8).",
    ),
)  # fmt: skip
LATE = (
    Act(votes.a_vote_again, "a vote arrives three times", (5,), 2),
    Act(votes.late_votes, "votes arrive one term late", (3,), 3),
    Act(
        log.late_acknowledgements, "acknowledgements arrive two terms late", (5,), 2,
        "An append_entries_res counts only in the term in which it was sent: the log may be another since.", True,
    ),
    Act(
        log.old_leader_appends, "append_entries of an old leader arrive late", (3,), 2,
        "append_entries of a term below the node's own change nothing.", True,
    ),
    Act(
        log.appends_again, "append_entries arrive again, out of order", (3,), 2,
        "Entries are removed only where one conflicts: an old append_entries holds less than the follower has already "
        "acknowledged (section 5.3).", True,
    ),
)  # fmt: skip
READS = (
    Act(
        log.old_leader_reads, "a client asks a leader that was cut off", (3, 5), 3,
        "A leader that cannot reach a majority may not be the leader any more: it must hear from a majority before it answers "
        "a read, or bring the read into the log (section 8).",
    ),
    Act(
        log.lagging_follower_reads, "a client asks a follower that was cut off", (3,), 2,
        "A follower does not know what is committed: it forwards reads or answers error 11.",
    ),
    Act(
        log.old_acknowledgements_and_a_read, "acknowledgements arrive late, after a read was asked for", (3,), 3,
        "Only an answer to a message that was sent after the read arrived tells that the leader was still leader then.",
    ),
    Act(
        log.standing_leader_reads, "a leader that stood still is asked first of all for a read", (3,), 2,
        "A leader that stood still may have lost its office meanwhile: it must hear from a majority before it answers a read.",
    ),
)  # fmt: skip
AVAILABLE = (
    Act(leading.minority_down, "a minority is down", (3, 5), 4),
    Act(leading.healed, "all is whole again", (3, 5), 2),
)

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
