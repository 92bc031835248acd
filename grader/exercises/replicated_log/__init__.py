"""LogNode(Node): replicated logs with offsets, which N nodes hold.

Kafka's model of a log (Kreps, Narkhede, Rao 2011, "Kafka: a distributed messaging system for log processing"; Wang et al.
2015, "Building a replicated logging system with Apache Kafka"), by the messages of Maelstrom's kafka workload. How nodes
agree is the learner's: judged is what clients see, by `nodes.histories.logs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from grader.exercise import Check, Exercise
from grader.exercises.common.nodes import skewed
from grader.exercises.common.scenes import Script
from grader.exercises.replicated_log import (
    agreeing,
    deciding,
    leading,
    offsets,
    once,
    quiet,
    random_plans,
    restarts,
    service,
)
from grader.exercises.replicated_log.judging import unsafe
from grader.exercises.replicated_log.scene import Logs
from grader.nodes.bench import NodeBench
from grader.nodes.plan import Plan, Played
from grader.nodes.sim import cluster
from grader.trace.story import Story
from grader.verdict import Diagnosis
from grader.worlds.nodes import Nodes

NODE = "LogNode"


@dataclass(frozen=True)
class Act:
    """A script, the clusters it is for, and why what it shows would be wrong."""

    script: Callable[[Logs], Script]
    label: str
    sizes: tuple[int, ...] = (3,)
    why: str = ""


def _acts(*acts: Act, also_random: bool = False) -> Callable[[NodeBench], Story]:
    """A check that plays these, each in every size, and shows the first. With `also_random`, runs with random faults as
    well: side by side with the others, since a box answers all of them at once."""

    def check(bench: NodeBench) -> Story:
        plans: list[Plan] = []
        by_seed: dict[int, Act] = {}
        for number, act in enumerate(acts):
            for size, seed in zip(act.sizes, bench.seeds(f"{number} {act.label}", len(act.sizes)), strict=True):
                members = skewed(cluster(size, NODE), bench.rng(f"clocks {seed}"))
                plans.append(Plan(members, seed=seed, until=120.0, label=f"{size} nodes: {act.label}"))
                by_seed[seed] = act
        if also_random:
            plans += random_plans.plans(bench, NODE)

        def prepare(played: Played) -> None:
            scene = played.notes = Logs(played, bench)
            act = by_seed.get(played.plan.seed)
            scene.play(act.script(scene) if act else random_plans.then_whole(scene))

        def judge(played: Played) -> Diagnosis | None:
            scene: Logs = played.notes
            act = by_seed.get(played.plan.seed)
            return unsafe(scene, act.why if act else "") or scene.found

        return bench.hold(plans, judge, prepare, random_plans.TRIES)  # only plans at random can be made smaller

    return check


SPREADS, OTHER = "the node that spreads messages", "another node"


def _both(
    script: Callable[..., Script], label: str, sizes: tuple[int, ...], why: str, name: str = "at_hub"
) -> Iterator[Act]:
    """The act at the node that spreads messages, and at another."""
    for value, where in ((True, SPREADS), (False, OTHER)):
        yield Act(partial(script, **{name: value}), f"{label} ({where})", sizes, why)


MAJORITY = "acknowledge a message only when a majority of all nodes has it, the node itself counted once."
COUNTING = (
    "a message of an earlier term may still be replaced although a majority has it. It is safe when a majority has an entry "
    "of the leader's own term after it (Raft, section 5.4.2)."
)
OF_ITS_OWN_TERM = "a node that leads, or wants to, counts only answers to what it asked in the term (epoch, view, ballot) that it is in."
PAIRS = (
    "two nodes may choose the same number (term, ballot). Compare numbers and names of nodes wherever you compare, or let "
    "each node promise a number to one node only."
)
SAFE = "show a message only when a majority has it, so that it stays whatever happens next."
NO_GAP = (
    "show only what stays, and show it in order: between two messages that a poll returns, nothing may appear later."
)
GREATEST = "the committed offset is the greatest one ever committed, for all clients at all nodes."
FEW = "Answer a commit or a list only when a majority of all nodes, three of five, has what it says."

ACKNOWLEDGED = (
    Act(
        partial(agreeing.acknowledged_by_few, at_hub=True),
        f"a message that few nodes get ({SPREADS})",
        (3, 5),
        MAJORITY,
    ),
    Act(partial(agreeing.acknowledged_by_few, at_hub=False), f"a message that few nodes get ({OTHER})", (3,), MAJORITY),
    *(
        Act(partial(agreeing.acknowledged_and_gone, at_hub=at_hub, both=both), label, sizes, MAJORITY)
        for at_hub, both, label, sizes in (
            (True, False, "the node that acknowledged and led crashes", (3,)),
            (False, False, "the node that acknowledged crashes", (3,)),
            (False, True, "the node that acknowledged and the one that led crash", (5,)),
        )
    ),
    Act(
        leading.known_by_one_of_two,
        "one of two followers has it",
        (3, 3),
        "a node that lacks an acknowledged message must not lead.",
    ),
    Act(
        leading.old_and_long,
        "a node with many messages of its own comes back",
        (3,),
        "a node that lacks an acknowledged message must not lead. It must replace what it has at that offset.",
    ),
    Act(
        leading.copies_arrive,
        "old messages arrive once more",
        (3,),
        "a node keeps what it has acknowledged to another one.",
    ),
    Act(
        leading.old_leader_arrives,
        "messages of an earlier leader arrive late",
        (3,),
        "when a later leader has begun, an earlier one changes nothing any more.",
    ),
    Act(leading.votes_arrive_late, "votes for an earlier term arrive late", (3,), OF_ITS_OWN_TERM),
    Act(
        leading.earlier_acknowledgements,
        "a node leads again, and old acknowledgements arrive late",
        (5,),
        OF_ITS_OWN_TERM,
    ),
    Act(leading.earlier_term, "a leader brings an earlier leader's message to a majority", (5,), COUNTING),
    Act(partial(agreeing.two_sides, at_hub=True), f"both sides of a cut are asked ({SPREADS})", (3, 5), MAJORITY),
    Act(partial(agreeing.two_sides, at_hub=False), f"both sides of a cut are asked ({OTHER})", (3,), MAJORITY),
    Act(
        leading.taken_after_a_promise,
        "an answer to a node that wants to lead arrives late",
        (3, 3),
        "a node that takes a message from a leader has promised that leader's number, too, and takes nothing older any more.",
    ),
)
POLLED = (
    *(
        Act(partial(agreeing.some_are_missed, whom=whom), "a node misses every second message", (3,), NO_GAP)
        for whom in (0, 1, 2)
    ),
    *(
        Act(partial(agreeing.one_is_late, at_hub=at_hub, lost=lost), label, (3,), NO_GAP)
        for at_hub, lost, label in (
            (True, False, "one message is late"),
            (False, False, "one message is late, from another node"),
            (True, True, "one message is lost"),
            (False, True, "one message is lost, from another node"),
        )
    ),
    *(
        Act(partial(script, at_hub=at_hub), f"{label} ({where})", sizes, SAFE)
        for script, label in (
            (agreeing.minority_polled, "a minority gets messages, and is polled"),
            (agreeing.polled_before_it_is_safe, "a message that few nodes get is polled"),
        )
        for at_hub, where, sizes in ((True, SPREADS, (3, 5)), (False, OTHER, (3,)))
    ),
)
COMMITTED = (
    Act(offsets.maximum, "commits of lower and higher offsets", (3,), GREATEST),
    *_both(offsets.older_commit_late, "messages about an older commit arrive late", (3,), GREATEST),
    *_both(
        offsets.cut_off_and_listed,
        "a node that is cut off is asked",
        (3, 5, 5),
        GREATEST + " A node that cannot reach a majority cannot know it.",
    ),
    *_both(offsets.committed_and_gone, "the node that answered a commit crashes", (3,), GREATEST),
    *_both(
        offsets.listed_before_it_is_safe,
        "a node that is cut off gets a commit",
        (3,),
        GREATEST + " Show one only when a majority has it.",
    ),
    *_both(offsets.committed_by_few, "two nodes that are cut off get a commit", (5,), GREATEST + " " + FEW),
    *_both(offsets.listed_from_one, "a commit that one node has is listed", (5,), GREATEST + " " + FEW),
)
DISK = "what a node has told others must be on its disk before. A crash may come after any single send or write."
ON_DISKS = "acknowledge a message only when a majority of all nodes has it on disk, the node itself counted once."
SAFE_AGAIN = (
    "a message on the disk of a node that restarts may be one that no majority has. " + SAFE[0].upper() + SAFE[1:]
)
ONE_LEADER = "what a node has promised to one node it must not promise to another, also after a restart."
NEW_NUMBERS = (
    "a node that restarts must not use a number (a term, a ballot) again that it used before for something else."
)
UNTIL_DECIDED = (
    "what a node has accepted stays on its disk until what replaces it is there, too. A crash may come after any single "
    "write. Put both into one write, or write what replaces it first."
)
STILL_KEPT = (
    "a node that tells another one what it has taken must keep it: the other one may crash before a majority has it."
)
OF_ITS_LIFE = (
    "an answer counts only for the request that it answers. After a restart, numbers of requests must not repeat."
)
RESTARTS = (
    *(
        Act(partial(restarts.after_each_effect, who=who), f"{label} crashes after each send and write", (3,), DISK)
        for who, label in (("spreads", "the node that spreads messages"), ("asked", "the asked node"), ("other", "another node"))
    ),
    Act(partial(restarts.both_forget, first_back=False, key="k"), "one of two restarts, the other one crashes", (3,), DISK),
    Act(partial(restarts.both_forget, first_back=True, key="x"), "the node that led restarts, the other one crashes", (3,), DISK),
    Act(restarts.told_and_forgotten, "a node crashes right after its first answer", (3, 3), DISK),
    Act(restarts.rolling, "nodes restart one after another", (3,), DISK),
    Act(partial(agreeing.minority_polled, at_hub=True), "a node gets messages, restarts, and is polled", (3,), SAFE_AGAIN),
    *(Act(partial(restarts.numbers_begin_again, whom=whom), "a node is asked, restarts, and is asked again", (3,), "a request after a restart is a new one.") for whom in (0, 1)),
    Act(restarts.adopted_and_forgotten, "a node takes over a message from the node that led, and restarts", (3, 3), ON_DISKS),
    Act(restarts.number_used_again, "a node restarts and asks again for what it asked before", (3, 3), NEW_NUMBERS),
    *_both(restarts.answered_in_an_earlier_life, "answers to requests of an earlier life arrive late", (3,), OF_ITS_LIFE),
    *(
        Act(partial(restarts.one_voter, restarts=restart), label, sizes, ONE_LEADER)
        for restart, label, sizes in (
            (True, "a node that two others ask restarts after each message", (3, 3)),
            (False, "two nodes ask the same third one", (3,)),
        )
    ),
    *(
        Act(partial(deciding.forgotten_half_way, again=again), label, (3,), UNTIL_DECIDED)
        for again, label in (
            (False, "a node crashes after its first write since an acknowledgement"),
            (True, "old messages arrive once more, and their node crashes after its first write"),
        )
    ),
    Act(deciding.told_and_let_go, "a node tells what it has taken, and the node that asked restarts", (3,), STILL_KEPT),
    *(Act(partial(deciding.told_and_let_go, writes=writes), f"a node that lacks a message restarts after {writes} writes", (3,), UNTIL_DECIDED) for writes in (2, 3)),
    *(
        Act(partial(deciding.same_number, low_first=low), f"two nodes choose one number ({name} first)", (3,), PAIRS)
        for low, name in ((True, "the lower name"), (False, "the higher name"))
    ),
)  # fmt: skip
TWICE = "a request that arrives again is no new one, at whatever node it arrives."
ONCE = (
    Act(once.all_twice, "every message between nodes arrives twice", (3,), TWICE),
    *_both(once.answers_lost, "nothing reaches the asked node for a while", (3,), TWICE),
    Act(partial(once.spreader_dies, reached=1), "the node that leads crashes when it has told one other", (3,), TWICE),
    Act(partial(once.spreader_dies, reached=2), "the node that leads crashes when it has told two others", (3,), TWICE),
    Act(leading.leads_again, "the node that leads restarts, and leads again", (3, 3, 3), TWICE),
    *(
        Act(partial(once.late_after_all, at_hub=at_hub, seconds=seconds), f"a message is under way for {seconds:g} s", (3,), TWICE)
        for at_hub, seconds in ((True, 2.4), (False, 2.4), (False, 4.6))
    ),
    *_both(once.refused_and_kept, "the asked node is cut off when others have the message", (3,), "error 11 promises that nothing happens, ever."),
    Act(once.equal_messages, "equal messages", (3,), "two sends of equal messages are two messages."),
)  # fmt: skip


AVAILABLE = (
    Act(partial(service.each_away, down=True), "a minority is down", (3, 5)),
    Act(partial(service.each_away, down=False), "a minority is cut off", (3,)),
    Act(partial(service.asked_too_early, led=True), "nobody reaches a majority for a while", (3,)),
    Act(partial(service.asked_too_early, led=False), "from the start on nobody reaches a majority for a while", (3,)),
    Act(service.early, "asked from the start on", (3,)),
    Act(service.first_word_lost, "the first message that holds a request is lost", (3,)),
)

CONVERGES = (
    *(
        Act(partial(service.catches_up, down=down), f"a node was {label}", (3,))
        for down, label in ((True, "down"), (False, "cut off"))
    ),
    Act(service.nobody_asks, "the node that leads crashes, and nobody asks anything", (3, 5)),
)

EXERCISE = Exercise(
    name="replicated_log",
    chapter="15",
    title="Logs that survive their leader",
    minutes=150,
    difficulty=3,
    cost="tens of seconds",
    world=Nodes((NODE,)),
    checks=(
        Check(
            "serves", "Every request at every node, any message, any key, many at once, no faults", 4,
            _acts(Act(service.everything, "no faults"), Act(service.at_once, "no faults", (3, 5))),
        ),
        Check("committed", "The greatest committed offset, at every node, also after cuts and crashes", 3, _acts(*COMMITTED)),
        Check("acknowledged", "Acknowledged messages stay: few nodes get them, or their node crashes", 4, _acts(*ACKNOWLEDGED)),
        Check("polled", "Polled messages stay, and polls skip nothing: minorities, late messages", 4, _acts(*POLLED)),
        Check("restarts", "Crashes after any send or write: what is on disk", 4, _acts(*RESTARTS)),
        Check("once", "Duplicates, lost answers, late messages: each message is there once", 4, _acts(*ONCE, also_random=True)),
        Check("available", "A majority serves from 3 s on, while the other nodes are down or cut off", 3, _acts(*AVAILABLE)),
        Check("converges", "5 s after a node was away, or the leader crashed, all nodes show all", 2, _acts(*CONVERGES)),
        Check("quiet", "A poll takes at most 2 messages when nothing else happens", 2, partial(quiet.cheap, kind=NODE)),
    ),
)  # fmt: skip
