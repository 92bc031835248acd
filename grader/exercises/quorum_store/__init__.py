"""QuorumStore(Node): a register for each key on N replicas, which W of them store and R of them are asked for.

Attiya, Bar-Noy, Dolev 1995, "Sharing memory robustly in message-passing systems", with several writers (Lynch and
Shvartsman 1997): timestamps (counter, node id), and reads that write back. Histories are judged by `nodes.histories`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from grader.exercise import Check, Exercise
from grader.exercises.quorum_store import judging as judging
from grader.exercises.quorum_store import plans as plans
from grader.lost import Lost
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Asked
from grader.nodes.explorer import View
from grader.nodes.histories.models import freeze
from grader.nodes.plan import Plan, Played
from grader.nodes.sim import messages_between
from grader.trace.story import Story
from grader.verdict import Diagnosis
from grader.worlds.nodes import Nodes

PROMPT = 2.0  # seconds
STATES = 9_000  # of each small cluster
WALKS = (60, 60)  # random ones, of so many steps
INDEFINITE = (0, 13)


def _asked(played: Played) -> list[Asked]:
    """What clients asked, in the order in which they did."""
    return sorted((asked for client in played.clients.values() for asked in client.done), key=lambda asked: asked.sent)


def _mark(played: Played, asked: Asked) -> int | None:
    """Draw the answer in red; the learner's line that sent it."""
    for sent in played.sim.story.sent:
        if sent.dst == asked.client and sent.body == asked.answer and sent.arrived == asked.answered:
            played.sim.story.marked.add(sent.number)
            return sent.line
    return None


def _what(asked: Asked) -> str:
    body = asked.ask.body
    value = f" of {body['value']!r}" if body["type"] == "write" else ""
    return f"the {body['type']}{value} of key {body['key']!r} that {asked.client} asked for at {asked.sent:.2f} s"


def _unanswered(bench: NodeBench, played: Played, asked: Asked, within: float, why: str) -> Diagnosis | None:
    """What is wrong where this request was not served in time."""
    where = f"{played.plan.label}. {asked.ask.node}"
    if asked.answer is None:
        message = f"{where} did not answer {_what(asked)}. {why}"
        return bench.found("not_available", message, None, f"an answer within {within:g} s", "none")
    if asked.answer.get("type") != f"{asked.ask.body['type']}_ok":
        message = f"{where} answered {asked.answer} to {_what(asked)}. {why}"
        return bench.found("not_available", message, _mark(played, asked), f"{asked.ask.body['type']}_ok",
                                 str(asked.answer.get("type")))  # fmt: skip
    assert asked.seconds is not None
    if asked.seconds > within:
        message = f"{where} took {asked.seconds:.2f} s for {_what(asked)}. {why}"
        return bench.found("not_available", message, _mark(played, asked), f"<= {within:g} s", f"{asked.seconds:.2f} s")
    return None


# ---- the checks


def _answers(bench: NodeBench) -> Story:
    def judge(played: Played) -> Diagnosis | None:
        last: dict[object, object] = {}
        if len(played.clients) > 1:
            return _all_at_once(bench, played)
        for asked in _asked(played):
            wrong = _unanswered(bench, played, asked, played.plan.wait, "Nothing was wrong with the network.")
            if wrong:
                return wrong
            body = asked.ask.body
            if body["type"] == "write":
                last[body["key"]] = body["value"]
                continue
            got, want = (asked.answer or {}).get("value"), last.get(body["key"])
            if _differ(got, want):
                message = (
                    f"{played.plan.label}. {asked.ask.node} answered {got!r} to {_what(asked)}; the last write, "
                    f"acknowledged before, was of {want!r}."
                    if body["key"] in last
                    else f"{played.plan.label}. {asked.ask.node} answered {got!r} to {_what(asked)}, which nobody has "
                    "written: that reads as null."
                )
                return bench.found("wrong_result", message, _mark(played, asked), repr(want), repr(got))
        return None

    rng = bench.rng("answers")
    return bench.hold([*plans.sequential(rng), *plans.together(rng)], judge)


def _all_at_once(bench: NodeBench, played: Played) -> Diagnosis | None:
    for asked in _asked(played):
        why = "Nothing was wrong with the network; a node serves several requests at a time, or one after another."
        wrong = _unanswered(bench, played, asked, played.plan.wait, why)
        if wrong:
            return wrong
    return judging.not_linearizable(bench, played.sim.story, judging.quorums_of(played))


def _differ(got: object, want: object) -> bool:
    return bool(freeze(got) != freeze(want))


def _budget(bench: NodeBench) -> Story:
    hop = plans.HOP

    def judge(played: Played) -> Diagnosis | None:
        story, size = played.sim.story, len(played.plan.members)
        asked_all = _asked(played)
        between = messages_between(story, played.sim.names)
        for number, asked in enumerate(asked_all):
            wrong = _unanswered(bench, played, asked, played.plan.wait, "Nothing was wrong with the network.")
            if wrong:
                return wrong
            assert asked.seconds is not None
            trips = (asked.seconds - 2 * hop) / (2 * hop)
            if trips > 2 + 1e-6:
                message = (
                    f"{played.plan.label}. {asked.ask.node} took {trips:.3g} round trips of 20 ms for {_what(asked)}; "
                    "two are enough: ask all others at once for what they hold, then have all others store at once."
                )
                story.title = "Too many round trips"
                return bench.found("too_many_rounds", message, _mark(played, asked), "<= 2", f"{trips:.3g}")
            until = asked_all[number + 1].sent if number + 1 < len(asked_all) else float("inf")
            own = [sent for sent in between if asked.sent <= sent.sent < until]
            if len(own) > 4 * (size - 1):
                story.title = "Too many messages"
                kinds = sorted({sent.type for sent in own})
                story.marked |= {sent.number for sent in own}
                message = (
                    f"{played.plan.label}. For {_what(asked)} nodes sent {len(own)} messages ({', '.join(kinds)}) to "
                    f"each other; a request and an answer per other replica, twice, are 4 (N - 1) = {4 * (size - 1)}."
                )
                return bench.found("too_many_messages", message, own[-1].line, str(4 * (size - 1)), str(len(own)))
        return None

    return bench.hold(plans.lone(bench.rng("budget")), judge)


def _explored(bench: NodeBench) -> Story:
    first: Story | None = None
    for model in plans.models(bench.rng("explored")):
        asks, quorums = model.asks, dict(model.members[0].settings)

        def judge(view: View) -> Diagnosis | None:
            found = judging.explored(view, asks)  # noqa: B023 - called before the next model comes
            return None if found is None else bench.found("not_linearizable", found.reason or "")

        try:
            explored = bench.explore(model, judge, most=STATES, dives=WALKS)
        except Lost as violation:
            if violation.picture is not None and violation.diagnosis.kind == "not_linearizable":
                told = judging.not_linearizable(bench, violation.picture, quorums)
                violation.diagnosis = told or violation.diagnosis
                violation.picture.title = "Not linearizable"
                violation.picture.subtitle = f"{model.label}; the shortest schedule that was found"
            raise
        first = first or explored.story
    assert first is not None
    return first


def _linearizable(*makes: Callable[[random.Random], Iterator[Plan]]) -> Callable[[NodeBench], Story]:
    """A check that every history of these plans is linearizable."""

    def check(bench: NodeBench) -> Story:
        def judge(played: Played) -> Diagnosis | None:
            return judging.not_linearizable(bench, played.sim.story, judging.quorums_of(played))

        return bench.hold((plan for make in makes for plan in make(bench.rng(make.__name__))), judge)

    return check


def _without(bench: NodeBench) -> Story:
    """No ok, and no promise that nothing happened, without a quorum."""
    cases = list(plans.without(bench.rng("without")))
    reached = {plan.seed: count for plan, count in cases}

    def judge(played: Played) -> Diagnosis | None:
        quorums = judging.quorums_of(played)
        count = reached.get(played.plan.seed, max(quorums.values()) - 1)
        for asked in _asked(played):
            if played.plan.network != plans.STEADY and asked.sent < 1.0:
                continue  # while all were there
            f, answer = asked.ask.body["type"], asked.answer
            if answer is None:
                continue
            needed = max(quorums.values()) if f == "write" else quorums["read_quorum"]
            said = f"{played.plan.label}. {asked.ask.node} answered {answer} to {_what(asked)}"
            cut_before = played.plan.network != plans.STEADY
            if answer.get("type") == f"{f}_ok" and cut_before and count < needed:
                which = "read_quorum" if quorums["read_quorum"] > count else "write_quorum"
                message = (
                    f"{said}, but with itself it reached {count} replicas and {which} is {quorums[which]}. Without a "
                    "quorum a store stays silent, or answers error 0 or 13."
                )
                return bench.found("wrong_result", message, _mark(played, asked), "no answer, or error 0 or 13",
                                         str(answer.get("type")))  # fmt: skip
            if answer.get("type") == "error" and answer.get("code") not in INDEFINITE:
                more = "promises that nothing happened" if judging.definite(answer) else "is none of 0 and 13"
                message = (
                    f"{said}. Error {answer.get('code')} {more}, but a replica may hold the value already, or get it "
                    "later: without a quorum stay silent, or answer 0 (timeout) or 13 (crash), which promise nothing."
                )
                return bench.found("wrong_result", message, _mark(played, asked), "error 0 or 13, or silence",
                                         f"error {answer.get('code')}")  # fmt: skip
        return None

    between = list(plans.left_in_between(bench.rng("between")))
    return bench.hold([*(plan for plan, _ in cases), *between], judge)


def _available(bench: NodeBench) -> Story:
    def judge(played: Played) -> Diagnosis | None:
        quorums = judging.quorums_of(played)
        over = max((mishap.until for mishap in played.plan.mishaps if mishap.until < plans.NEVER), default=0.0)
        for asked in _asked(played):
            if asked.sent < over + 1:
                continue
            why = (
                "All nodes were up again, and all links worked: a request that never got its quorum must not be in the "
                "way of others."
                if over
                else f"It reached {max(quorums.values())} replicas with itself, which is a quorum: neither who is "
                "asked nor who stores may be fixed beforehand."
            )
            wrong = _unanswered(bench, played, asked, PROMPT, why)
            if wrong:
                return wrong
        return None

    rng = bench.rng("available")
    return bench.hold([*plans.just_enough(rng), *plans.afterwards(rng)], judge)


def _exact(bench: NodeBench) -> Story:
    """Quorums that do not meet are used as they are set, and then the checker finds a stale read."""

    def judge(played: Played) -> Diagnosis | None:
        story, quorums = played.sim.story, judging.quorums_of(played)
        if plans.UNASKED in played.plan.label:
            return _stored_unasked(bench, played)
        for asked in _asked(played):
            wrong = _unanswered(
                bench, played, asked, PROMPT,
                "Its side of the partition has write_quorum and read_quorum replicas, as they are set. W + R <= N is "
                "unsafe, and yet what was asked for: no majority is needed.",
            )  # fmt: skip
            if wrong:
                return wrong
        found = judging.checked(story)
        if found is None and len(_asked(played)) > 1:
            message = (
                f"{played.plan.label}. The read on one side saw a write on the other: no message can have told it."
            )
            return bench.found("wrong_result", message)
        if found is not None:
            story.title = f"W = {quorums['write_quorum']}, R = {quorums['read_quorum']}: a stale read, as there must be"
            story.subtitle = found.reason or ""
        return None

    return bench.hold([*plans.split_brains(), *plans.never_asked(bench.rng("exact"))], judge)


def _stored_unasked(bench: NodeBench, played: Played) -> Diagnosis | None:
    for asked in _asked(played):
        got = (asked.answer or {}).get("value")
        if asked.ask.body["type"] == "read" and got is not None:
            quorums = judging.quorums_of(played)
            message = (
                f"{played.plan.label}. {asked.ask.node} answered {got!r} to {_what(asked)}: a replica stores it, "
                f"though the node that served the write never reached read_quorum = {quorums['read_quorum']} replicas "
                "to ask for the highest timestamp. Are write_quorum and read_quorum exchanged?"
            )
            return bench.found("wrong_result", message, _mark(played, asked), "null", repr(got))
    return None


EXERCISE = Exercise(
    name="quorum_store",
    chapter="03",
    title="A replicated register: quorums, timestamps, write-back",
    minutes=60,
    difficulty=3,
    cost="seconds",
    world=Nodes(("QuorumStore",)),
    checks=(
        Check("answers", "What was written last is read, no faults", 2, _answers),
        Check("budget", "Two round trips, 4(N-1) messages, no faults", 3, _budget),
        Check("explored", "Linearizable in every order of messages; a crash", 4, _explored),
        Check(
            "network",
            "Linearizable under drops, delays, partitions, pauses",
            4,
            _linearizable(plans.scripted, plans.lossy),
        ),
        Check(
            "crashes",
            "Linearizable under crashes and restarts",
            4,
            _linearizable(plans.kept, plans.cut_short, plans.late_for_the_dead, plans.crashing),
        ),
        Check("no_quorum", "Without a quorum: no ok, no false promise", 3, _without),
        Check("available", "Served with N - max(W, R) nodes down, and after faults", 3, _available),
        Check("exact", "W and R as they are set, also where W + R <= N", 3, _exact),
    ),
)
