"""QuorumStore(Node): a register for each key on N replicas, which W of them store and R of them are asked for.

Attiya, Bar-Noy, Dolev 1995, "Sharing memory robustly in message-passing systems", with several writers (Lynch and
Shvartsman 1997): timestamps (counter, node id), and reads that write back. Histories are judged by `nodes.histories`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from grader import tally
from grader.exercise import Check, Exercise
from grader.exercises.common.nodes import Plans, held
from grader.exercises.quorum_store import judging as judging
from grader.exercises.quorum_store import plans as plans
from grader.exercises.quorum_store.judging import View
from grader.lost import Lost
from grader.nodes import runs, states
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Asked
from grader.nodes.histories.models import freeze
from grader.nodes.plan import Plan
from grader.says import counted
from grader.trace.story import Story
from grader.verdict import Diagnosis
from grader.worlds.nodes import Nodes

PROMPT = 2.0  # seconds
STATES = 9_000  # of each small cluster
WALKS = (60, 60)  # random ones, of so many steps
INDEFINITE = (0, 13)
NO_FAULT = "Nothing was wrong with the network."


def _unserved(run: View, asked: Asked, within: float, why: str) -> Diagnosis | None:
    """What is wrong where this request was not served in time."""
    wanted = f"{asked.ask.body['type']}_ok"
    if asked.answer is None:
        text = f"did not answer {judging.what(asked)}. {why}"
        return run.told("not_available", asked, text, f"an answer within {within:g} s", "none")
    if asked.answer.get("type") != wanted:
        if asked.ask.body["type"] == "read" and asked.answer.get("code") == 20:
            why = "Answer read_ok with null for a key that this node and its quorum hold nothing of."
        text = f"answered {judging.shown(asked.answer)} to {judging.what(asked)}. {why}"
        return run.told("not_available", asked, text, wanted, str(asked.answer.get("type")))
    assert asked.seconds is not None
    if asked.seconds > within:
        text = f"took {asked.seconds:.2f} s for {judging.what(asked)}, and {within:g} s are allowed. {why}"
        return run.told("not_available", asked, text, f"<= {within:g} s", f"{asked.seconds:.2f} s")
    return None


def _first_unserved(run: View, within: float, why: str, since: float = 0.0) -> Diagnosis | None:
    found = (_unserved(run, asked, within, why) for asked in run.asked if asked.sent >= since)
    return next((wrong for wrong in found if wrong), None)


# ---- the checks


def _drawn(label: str, *makes: Callable[[random.Random], Iterable[Plan]]) -> Plans:
    """The plans of all these, drawn with the same random numbers."""

    def drawn(bench: NodeBench) -> Iterator[Plan]:
        rng = bench.rng(label)
        return (plan for make in makes for plan in make(rng))

    return drawn


def _as_written(run: View) -> Diagnosis | None:
    """Every read finds the last write; of several clients at once, what one order explains."""
    if len(run.played.clients) > 1:
        why = f"{NO_FAULT} Serve several requests at the same time, or one after another."
        return _first_unserved(run, run.plan.wait, why) or judging.not_linearizable_run(run)
    last: dict[object, object] = {}
    for asked in run.asked:
        if wrong := _unserved(run, asked, run.plan.wait, NO_FAULT):
            return wrong
        body = asked.ask.body
        if body["type"] == "write":
            last[body["key"]] = body["value"]
            continue
        got, want = (asked.answer or {}).get("value"), last.get(body["key"])
        if freeze(got) != freeze(want):
            text = f"answered {got!r} to {judging.what(asked)}. "
            if body["key"] in last:
                text += f"The last write before it was acknowledged, and wrote {want!r}."
            else:
                text += "No client had written this key. Return null for a key without a write."
            wrote = [one.ask.body["key"] for one in run.asked if freeze(one.ask.body.get("value")) == freeze(got)]
            if wrote and got is not None and body["key"] not in wrote:
                text += f" The value {got!r} was written to key {wrote[0]!r}. Keep a copy for each key on its own."
            return run.told("wrong_result", asked, text, repr(want), repr(got))
    return None


def _within_budget(run: View) -> Diagnosis | None:
    most, between = 4 * (len(run.names) - 1), run.between()
    for number, asked in enumerate(run.asked):
        if wrong := _unserved(run, asked, run.plan.wait, NO_FAULT):
            return wrong
        assert asked.seconds is not None
        trips = (asked.seconds - 2 * plans.HOP) / (2 * plans.HOP)
        tally.note("round trips of a request", trips, 2, "round trips", where=run.plan.label)
        if trips > 2 + 1e-6:
            run.story.title = "Too many round trips"
            text = (
                f"took {trips:.3g} round trips of 20 ms for {judging.what(asked)}, and two are allowed. Ask all other "
                "replicas at once what they hold. Then make all of them store the value at once."
            )
            return run.told("too_many_rounds", asked, text, "<= 2", f"{trips:.3g}")
        until = run.asked[number + 1].sent if number + 1 < len(run.asked) else float("inf")
        own = [sent for sent in between if asked.sent <= sent.sent < until]
        tally.note("messages for a request", len(own), most, "messages", where=run.plan.label)
        if len(own) > most:
            run.story.title = "Too many messages"
            kinds = sorted(Counter(sent.type for sent in own).items())
            text = (
                f"{run.plan.label}. For {judging.what(asked)} the nodes sent each other {len(own)} messages "
                f"({', '.join(f'{count} {kind}' for kind, count in kinds)}). At most 4 (N - 1) = {most} are allowed: two rounds, and in each round one request "
                "and one reply per other replica."
            )
            return run.wrong("too_many_messages", text, shown=own, expected=str(most), got=str(len(own)))
    return None


def _explored(bench: NodeBench) -> Story:
    return bench.side_by_side(*(partial(_explored_one, bench, model) for model in plans.models(bench.rng("explored"))))[
        0
    ]


def _explored_one(bench: NodeBench, model: states.Model) -> Story:
    def judge(view: states.View) -> Diagnosis | None:
        found = judging.explored(view, model.asks)
        return None if found is None else bench.found("not_linearizable", found.reason or "")

    try:
        return bench.explore(model, judge, most=STATES, dives=WALKS).story
    except Lost as violation:
        if violation.picture is not None and violation.diagnosis.kind == "not_linearizable":
            told = judging.not_linearizable(bench.file, violation.picture, dict(model.members[0].settings))
            violation.diagnosis = told or violation.diagnosis
            violation.picture.title = "Not linearizable"
            violation.picture.subtitle = f"{model.label}; the shortest schedule that was found"
        raise


def _linearizable(*makes: Callable[[random.Random], Iterator[Plan]]) -> Callable[[NodeBench], Story]:
    """A check that every history of these plans is linearizable."""

    def drawn(bench: NodeBench) -> Iterator[Plan]:
        return (plan for make in makes for plan in make(bench.rng(make.__name__)))

    return held(drawn, View, judging.not_linearizable_run)


def _without(bench: NodeBench) -> Story:
    """No ok, and no promise that nothing happened, without a quorum."""
    cases = list(plans.without(bench.rng("without")))
    reached = {plan.seed: count for plan, count in cases}
    between = list(plans.left_in_between(bench.rng("between")))
    judge = runs.judging(View, partial(_no_promise, reached=reached))
    return bench.hold([*(plan for plan, _ in cases), *between], judge)


def _no_promise(run: View, reached: dict[int, int]) -> Diagnosis | None:
    quorums, cut_before = run.quorums, run.plan.network != plans.STEADY
    # of a smaller plan, whose cut may have been left out, all can be reached
    count = reached.get(run.plan.seed, max(quorums.values()) - 1) if run.plan.mishaps else len(run.plan.members)
    for asked in run.asked:
        f, answer = asked.ask.body["type"], asked.answer
        if answer is None or (cut_before and asked.sent < 1.0):  # while all were there
            continue
        needed = max(quorums.values()) if f == "write" else quorums["read_quorum"]
        text = f"answered {judging.shown(answer)} to {judging.what(asked)}"
        if answer.get("type") == f"{f}_ok" and cut_before and count < needed:
            which = "read_quorum" if quorums["read_quorum"] > count else "write_quorum"
            text += (
                f", but with itself it reached {counted(count, 'replica')} and {which} is {quorums[which]}. Without a "
                "quorum do not answer, or answer error 0 or 13."
            )
            return run.told("wrong_result", asked, text, "no answer, or error 0 or 13", str(answer.get("type")))
        if answer.get("type") == "error" and answer.get("code") not in INDEFINITE:
            more = "promises that nothing happened" if judging.definite(answer) else "is neither 0 nor 13"
            text += f". Error {answer.get('code')} {more}"
            text += ", but a replica may already hold the value, or get it later." if f == "write" else "."
            text += " Without a quorum do not answer, or answer error 0 (timeout) or 13 (crash), which promise nothing."
            wanted = "error 0 or 13, or silence"
            return run.told("wrong_result", asked, text, wanted, f"error {answer.get('code')}")
    return None


def _served(run: View) -> Diagnosis | None:
    over = max((mishap.until for mishap in run.plan.mishaps if mishap.until < plans.NEVER), default=0.0)
    why = (
        "All nodes were up again, and all links worked. An earlier request that never got its quorum must not block "
        "later requests."
        if over
        else f"With itself it could reach {max(run.quorums.values())} replicas, enough for both quorums. Wait for read_quorum "
        "and then for write_quorum replicas, whichever they are, and for no more. The node itself counts as one."
    )
    return _first_unserved(run, PROMPT, why, over + 1)


def _as_set(run: View) -> Diagnosis | None:
    """Quorums that do not meet are used as they are set, and then the checker finds a stale read."""
    story, quorums = run.story, run.quorums
    if plans.UNASKED in run.plan.label:
        # in a smaller plan, whose cut was left out, its node can ask all
        return _stored_unasked(run) if any(each.what == "partition" for each in run.plan.mishaps) else None
    why = (
        "Its side of the partition has enough replicas for write_quorum and read_quorum. Use the quorums as they are "
        "set, with the node itself counted, and do not demand a majority. W + R <= N is unsafe, but it was asked for."
    )
    if wrong := _first_unserved(run, PROMPT, why):
        return wrong
    found = judging.checked(story)
    if found is None and len(run.asked) > 1:
        text = f"{run.plan.label}. The read on one side saw the write on the other side, but no message could pass "
        text += "between the sides. Nodes may share nothing but messages."
        return run.wrong("wrong_result", text)
    if found is not None:
        story.title = f"W = {quorums['write_quorum']}, R = {quorums['read_quorum']}: a stale read, as expected"
        story.subtitle = found.reason or ""
    return None


def _stored_unasked(run: View) -> Diagnosis | None:
    for asked in run.asked:
        got = (asked.answer or {}).get("value")
        if asked.ask.body["type"] == "read" and got is not None:
            text = (
                f"answered {got!r} to {judging.what(asked)}, so a replica stored this value. But the node that served the "
                f"write could not reach read_quorum = {run.quorums['read_quorum']} replicas to ask for the highest "
                "timestamp. Check that write_quorum and read_quorum are not exchanged."
            )
            return run.told("wrong_result", asked, text, "null", repr(got))
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
        Check("answers", "What was written last is read, no faults", 2, held(_drawn("answers", plans.sequential, plans.together), View, _as_written)),
        Check("budget", "Two round trips, 4(N-1) messages, no faults", 3, held(_drawn("budget", plans.lone), View, _within_budget)),
        Check("explored", "Linearizable in every order of messages; a crash", 4, _explored),
        Check(
            "network", "Linearizable under drops, delays, partitions, pauses", 4,
            _linearizable(plans.scripted, plans.lossy),
        ),
        Check(
            "crashes", "Linearizable under crashes and restarts", 4,
            _linearizable(plans.kept, plans.cut_short, plans.late_for_the_dead, plans.crashing, plans.told_one_only, plans.equal_again, plans.nothing_done_before),
        ),
        Check("no_quorum", "Without a quorum: no ok, no false promise", 3, _without),
        Check(
            "available", "Served with N - max(W, R) nodes down, and after faults", 3,
            held(_drawn("available", plans.just_enough, plans.afterwards), View, _served),
        ),
        Check(
            "exact", "W and R as they are set, also where W + R <= N", 3,
            held(_drawn("exact", plans.split_brains, plans.never_asked), View, _as_set),
        ),
    ),
)  # fmt: skip
