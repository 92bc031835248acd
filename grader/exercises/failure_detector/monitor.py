"""The node half of failure_detector: Monitor(Node), which says whom it takes for crashed.

Faults are crashes, with a restart or without, and clocks that differ; no message is lost but to a node that is down. What
is promised: a node that was heard and is down for 5 s is listed, one that has been up for 2 s is not.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from grader.exercises.common.nodes import each, held, names
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Ask, Asked
from grader.nodes.plan import Mishap, Plan
from grader.nodes.runs import Run, in_time
from grader.nodes.sim import Member, cluster
from grader.verdict import Diagnosis

SEEN = 5.0  # seconds after a crash within which it must be listed
TRUSTED = 2.0  # seconds after a start within which nobody may be blamed for silence
KNOWN = 4.0  # seconds for which two nodes were up together, after which they have heard of each other
LONG = 600.0  # seconds after which a node that is down is listed still
SHOWN = 0.5  # seconds by which clocks have moved apart, from which on a diagnosis tells of that
DRIFTED = 250.0  # seconds after which clocks that are 2 % apart are 5 s apart
PROMPT = 2.15  # 2 s by a clock that is 1 % slow, and twice the way between client and node
QUESTION = {"type": "suspects"}


# ---- what is right


def proper(run: Run) -> Diagnosis | None:
    """A node that is up answers suspects_ok within 2 s, with a list of other nodes' ids, in order, each once."""
    for one in run.asked:
        node, answer = one.ask.node, one.answer
        if not run.up(node, one.sent, one.sent + PROMPT) or one.sent + PROMPT > run.story.end:
            continue
        where = f"{node}, asked for its suspects at {one.sent:.2f} s,"
        if answer is None or not in_time(one, PROMPT):
            after = "did not answer" if one.seconds is None else f"answered only after {one.seconds:.2f} s"
            text = f"{where} {after}. Answer within 2 s."
            if run.strays(one, since=0.0):
                text += f" {node} sent {one.client} a message without in_reply_to: answer with reply(request, body)."
            return run.wrong("not_available", text, title="No answer", shown=[one.reply])
        told = answer.get("suspects")
        names = [name for name in run.names if name != node]
        if answer.get("type") != "suspects_ok" or not isinstance(told, list) or any(one not in names for one in told):
            got = json.dumps({name: answer[name] for name in answer if name != "in_reply_to"})[:150]
            wanted = 'suspects_ok with "suspects", a list of ids of other nodes'
            text = f"{where} answered {got}. Answer {wanted}."
            if isinstance(told, list) and node in told:
                text += f" {node} lists itself, but a node that answers is up. Leave its own id out."
            return _wrong(run, one, text, "An answer of the wrong form", wanted, got)
        if told != sorted(set(told)):
            wanted, got = json.dumps(sorted(set(told))), json.dumps(told)
            text = f"{where} answered {got}, expected {wanted}. Sort the ids, and list each id once."
            return _wrong(run, one, text, "Ids not sorted, or not unique", wanted, got)
    return None


def _wrong(run: Run, one: Asked, text: str, title: str, expected: str, got: str) -> Diagnosis:
    return run.wrong("wrong_result", text, title=title, shown=[one.reply], expected=expected, got=got)


def _answers(run: Run) -> Iterator[tuple[Asked, float, list[Any]]]:
    for one in run.asked:
        told = (one.answer or {}).get("suspects")
        if isinstance(told, list) and one.answered is not None:
            yield one, one.answered, told


def complete(run: Run) -> Diagnosis | None:
    """Whoever was heard and is down for 5 s is listed, by all that stayed up."""
    for one, answered, told in _answers(run):
        node = one.ask.node
        for other in run.names:
            out = run.down(other, one.sent - SEEN, answered)
            if out is None or other == node or other in told:
                continue
            both_since = max(run.back(other, out[0]), run.back(node, one.sent))
            if not run.up(node, both_since, answered) or out[0] - both_since < KNOWN - 1e-6:
                continue
            text = (
                f"{other} crashed at {out[0]:.2f} s, but {node} did not list {other} at {answered:.2f} s, "
                f"{answered - out[0]:.1f} s later. List a crashed node within 5 s."
            )
            listed = [at for asked, at, suspects in _answers(run) if asked.ask.node == node and other in suspects]
            outages = [end - begin for begin, end in run.downs[other] if end < out[0]]
            if before := [at for at in listed if out[0] < at < answered]:
                text += f" {node} had listed {other} at {before[-1]:.2f} s. Keep it listed as long as it is down."
            elif len(outages) > 1 and any(at < out[0] for at in listed):
                text += (
                    f" It was outage number {len(outages) + 1} of {other}, which was back for {out[0] - both_since:.1f} s, and "
                    f"{node} had listed {other} in an earlier one. Watch it in the same way each time."
                )
            elif outages:
                text += (
                    f" {other} had an earlier outage of {max(outages):.0f} s, and was back for {out[0] - both_since:.1f} s. The outage "
                    "must not count as an interval between heartbeats, and few heartbeats must be enough."
                )
            elif all(run.down(name, out[0], answered) for name in run.names if name != node):
                text += (
                    f" No other node is up then, so no message of a node reaches {node}. Compute the suspects when the "
                    "client asks."
                )
            if run.offsets[node] < run.offsets[other]:
                text += _clocks(run, node, other)
            text += _drift(run, node, other, answered)
            return _wrong(run, one, text, "A crash that is not listed", f"{other} listed", json.dumps(told))
    return None


def accurate(run: Run) -> Diagnosis | None:
    """Whoever has been up for 2 s is not listed, by any that has been up for 2 s."""
    for one, answered, told in _answers(run):
        node = one.ask.node
        for other in told:
            if other not in run.names or not all(run.up(name, one.sent - TRUSTED, answered) for name in (node, other)):
                continue
            text = f"{node}, asked at {one.sent:.2f} s, listed {other}, but {other} "
            if back := run.back(other, one.sent):
                text += f"had been up again since {back:.2f} s. Trust a node again within 2 s of its return."
                if not run.back(node, one.sent) and _took_off(run, node, other, back):
                    text += f" {node} had listed {other} before this outage, too, and had taken it off its list again. Do the same "
                    text += "each time."
            else:
                text += "had never been down."
            heard = [sent.arrived or 0.0 for sent in run.reached(node, until=one.sent) if sent.src == other]
            if heard:
                text += f" The last message from {other} had arrived at {max(heard):.2f} s."
            else:
                text += f" No message from {other} had arrived yet. Do not suspect a node for that alone."
            if started := run.back(node, one.sent):
                text += f" {node} itself had restarted at {started:.2f} s, so its memory begins there."
                if heard and max(heard) < started:
                    text += f" It has not heard from {other} since. Do not suspect a node for that alone."
            # By mixed clocks the silence of nodes that are behind looks longer, and longest of those furthest behind; and
            # always so, from their first message on.
            behind = [name for name in run.names if run.offsets[name] <= run.offsets[other] < run.offsets[node]]
            trusted = any(
                node == earlier.ask.node and other not in listed and min(heard, default=at) < earlier.sent < one.sent
                for earlier, at, listed in _answers(run)
            )
            if not back and not trusted and behind and all(name in told for name in behind):
                text += _clocks(run, node, other)
            if trusted:
                text += _drift(run, node, other, one.sent)
            return _wrong(run, one, text, "A false alarm", f"{other} not listed", json.dumps(told))
    return None


def _took_off(run: Run, node: str, other: str, back: float) -> bool:
    """Whether a node no longer listed, before the outage that was over at `back`, what it had listed before."""
    begun = max(begin for begin, end in run.downs[other] if end <= back)
    earlier = sorted((at, other in told) for one, at, told in _answers(run) if one.ask.node == node and at < begun)
    return any(was and not now for (_, was), (_, now) in pairwise(earlier))


def _clocks(run: Run, node: str, other: str) -> str:
    """What may be wrong where their clocks differ, and messages tell the sender's."""
    apart = abs(run.offsets[node] - run.offsets[other])
    [member] = [member for member in run.plan.members if member.name == other]
    told = (
        abs(float(number) - member.offset - member.rate * sent.sent) < 0.01
        for sent in run.reached(node) if sent.src == other
        for number in re.findall(r"-?\d+\.\d+", json.dumps(sent.body))
    )  # fmt: skip
    if apart <= 1 or not any(told):
        return ""
    return (
        f" {other}'s messages tell the time by its own clock, which is {apart:.0f} s from {node}'s. Subtract only times of one clock: use the times at "
        f"which heartbeats arrived at {node}."
    )


def _drift(run: Run, node: str, other: str, at: float) -> str:
    """How far two clocks have moved apart, where that may show."""
    rates = {member.name: member.rate for member in run.plan.members}
    apart = at * abs(rates[node] - rates[other])
    if apart < SHOWN:
        return ""
    return (
        f" Since the start {node}'s clock and {other}'s have moved {apart:.1f} s apart, because clocks run up to 1 % fast or "
        "slow. Count the silence from the last heartbeat alone, and nothing from the first."
    )


# ---- runs


def _asking(nodes: Sequence[str], times: Sequence[float]) -> dict[str, tuple[Ask, ...]]:
    """A client for each node that asks for its suspects at these times, and one that asks once and never again."""
    asks = {f"c{node[1:]}": tuple(Ask(node, QUESTION, at=time) for time in times) for node in nodes}
    return {"c9": (Ask(nodes[0], QUESTION, at=TRUSTED),), **asks}


def _plan(
    size: int, times: Sequence[float], mishaps: Sequence[Mishap], seed: int, label: str,
    members: Sequence[Member] = (), without: Sequence[str] = (),
) -> Plan:  # fmt: skip
    made = tuple(members) or cluster(size, "Monitor")
    nodes = [member.name for member in made if member.name not in without]
    last = max([*times, 0.0])
    return Plan(made, _asking(nodes, times), tuple(mishaps), seed=seed, until=last + PROMPT + 0.5, label=label)


def _spread(rng: random.Random, since: float, until: float, every: float) -> list[float]:
    """Times that far apart, from a random one on."""
    count = int((until - since) / every)
    first = since + rng.uniform(0, every / 4)
    return [first + every * place for place in range(count)]


def _crash(node: Sequence[str], at: float, until: float) -> Mishap:
    return Mishap("crash", at, until, (tuple(node),))


def _listed(rng: random.Random, size: int, seed: int) -> Plan:
    """One crashes for good, in the larger cluster another soon after, which comes before it in order.

    Of two nodes one crash leaves the other alone: no message tells it that time has passed, nor that much has.
    """
    nodes = names(size)
    later = rng.choice(nodes[min(2, size - 1) :])
    earlier = rng.choice(nodes[: nodes.index(later)])
    at = rng.uniform(8, 11)
    crashes = [_crash([later], at, 2 * LONG)]
    if size > 3:
        crashes.append(_crash([earlier], at + 1.5, 2 * LONG))
    times = [at + SEEN, at + SEEN + 0.7, at + SEEN + 1.55, at + SEEN + 2.5, at + 15, *[at + LONG] * (size == 2)]
    down = [later, earlier] if size > 3 else [later]
    label = f"{size} nodes, {' and '.join(down)} crash{'' if down[1:] else 'es'} at {at:.1f} s{' and soon after' if size > 3 else ''}"
    return _plan(size, times, crashes, seed, label, without=down)


def _early(rng: random.Random, size: int, seed: int) -> Plan:
    """One crashes for good as soon as all must have heard of each other."""
    node, at = f"n{rng.randint(1, size)}", KNOWN + rng.uniform(0.02, 0.1)
    label = f"{size} nodes, {node} crashes when all have been up for {at:.2f} s"
    return _plan(size, [at + SEEN, at + SEEN + 1], [_crash([node], at, 100)], seed, label, without=[node])


def _others(rng: random.Random, size: int, seed: int) -> Plan:
    """What befalls one says nothing about another: one crashes, and a second comes back soon after; the third restarts,
    and then the second crashes."""
    one, two, three, *_ = rng.sample(names(size), size)
    at = rng.uniform(10, 11)
    again = at + 10.5 + rng.uniform(KNOWN + 0.02, KNOWN + 0.1)
    crashes = [
        _crash([two], at - 4, at + 2), _crash([one], at, 2 * LONG), _crash([three], at + 9.5, at + 10.5),
        _crash([two], again, 2 * LONG),
    ]  # fmt: skip
    times = [at + SEEN, at + SEEN + 1, again + SEEN, again + SEEN + 1]
    label = f"{size} nodes, {one} crashes at {at:.1f} s, {two} is back 2 s later; {three} is back at {at + 10.5:.1f} s, {two} crashes at {again:.1f} s"
    return _plan(size, times, crashes, seed, label, without=[one, two])


def _comes_and_goes(rng: random.Random, size: int, seed: int) -> Plan:
    """One is down three times, long enough to be listed, and back in between for as long as others need to know it."""
    node, at = f"n{rng.randint(1, size)}", rng.uniform(8, 9)
    downs = [(at + 12 * place, at + 12 * place + 7) for place in range(3)]
    times = [time for down, back in downs for time in (down + SEEN, back - 0.2, back + TRUSTED + 0.01, back + 3)]
    label = f"{size} nodes, {node} is down for 7 s three times, from {at:.1f} s on"
    return _plan(size, times, [_crash([node], *each) for each in downs], seed, label)


def _trusted(rng: random.Random, size: int, seed: int) -> Plan:
    """Nothing for 10 s, then one node is down for long, another one for short."""
    one, other = rng.sample(names(size), 2)
    short, long = rng.uniform(1, 3), rng.uniform(7, 12)
    crashes = [_crash([one], 10.5, 10.5 + long), _crash([other], 25, 25 + short)]
    times = [TRUSTED + 0.01, *_spread(rng, 2.2, 10.4, 0.5), 10.5 + long - 0.5]  # the last, while one is listed
    for back in (10.5 + long, 25 + short):
        times += [back + TRUSTED + 0.01, *_spread(rng, back + 2.2, back + 5, 0.5)]
    label = f"{size} nodes, {one} is down from 10.5 s on for {long:.1f} s, {other} from 25 s on for {short:.1f} s"
    return _plan(size, sorted(times), crashes, seed, label)


def _restarts(rng: random.Random, size: int, seed: int) -> Plan:
    """One restarts seven times, 0.4 s later each time in the others' periods of 2.5 s, and 0.6 s in those of 3 s: they are
    silent for its first 2 s at least once, and must not be suspected for that."""
    node, at = f"n{rng.randint(1, size)}", rng.uniform(5, 6)
    back = [at + 1 + 5.4 * place for place in range(7)]
    crashes = [_crash([node], time - 1, time) for time in back]
    label = f"{size} nodes, {node} is down for 1 s seven times, from {at:.1f} s on"
    return _plan(size, [time + TRUSTED + 0.01 for time in back], crashes, seed, label)


def _again(rng: random.Random, size: int, seed: int) -> Plan:
    """Down for long, back for short, and down for good."""
    node = f"n{rng.randint(1, size)}"
    at, outage, back = rng.uniform(8, 10), 15.0 if size > 3 else rng.choice((30.0, 60.0)), rng.uniform(4.05, 5.0)
    second = at + outage + back
    crashes = [_crash([node], at, at + outage), _crash([node], second, second + 100)]
    times = [at + SEEN, at + outage - 0.5, second + SEEN, second + SEEN + 1, second + SEEN + 3]
    label = f"{size} nodes, {node} is down for {outage:g} s, back for {back:.1f} s, and down again at {second:.1f} s"
    return _plan(size, times, crashes, seed, label, without=[node])


def _skewed(rng: random.Random, size: int, seed: int) -> Plan:
    """Clocks that are set otherwise, and a little fast or slow; first nothing, then a crash for good."""
    offsets = [100.0, -100.0, *(rng.uniform(-100, 100) for _ in range(size))]
    rng.shuffle(offsets)
    made = [
        replace(member, offset=offset, rate=rng.choice((0.99, 1.01)))
        for member, offset in zip(cluster(size, "Monitor"), offsets, strict=False)
    ]
    node, at = f"n{rng.randint(1, size)}", rng.uniform(9, 12)
    times = [*_spread(rng, TRUSTED + 0.01, at, 1.0), at + SEEN, at + SEEN + 1]
    label = f"{size} nodes whose clocks differ, {node} crashes at {at:.1f} s"
    return _plan(size, times, [_crash([node], at, at + 100)], seed, label, made)


def _drifting(rng: random.Random, size: int, seed: int) -> Plan:
    """One clock is 1 % fast and all others are 1 % slow, for minutes; then the node with the fast one crashes for good."""
    fast = f"n{rng.randint(1, size)}"
    made = [
        replace(member, offset=rng.uniform(-100, 100), rate=1.01 if member.name == fast else 0.99)
        for member in cluster(size, "Monitor")
    ]
    times = [*_spread(rng, 20, DRIFTED, 20.0), DRIFTED + SEEN, DRIFTED + SEEN + 1]
    label = f"{size} nodes, {fast}'s clock is 1 % fast and others are 1 % slow; {fast} crashes at {DRIFTED:g} s"
    return _plan(size, times, [_crash([fast], DRIFTED, 2 * DRIFTED)], seed, label, made)


def _down(bench: NodeBench) -> Iterator[Plan]:
    yield from each("listed", _listed, (3, 5, 2))(bench)
    yield from each("early", _early, (3,))(bench)
    yield from each("others", _others, (3,))(bench)


def _up(bench: NodeBench) -> Iterator[Plan]:
    yield from each("trusted", _trusted, _SIZES)(bench)
    yield from each("restarts", _restarts, (3,))(bench)
    yield from each("comes and goes", _comes_and_goes, (3,))(bench)


def _down_again(bench: NodeBench) -> Iterator[Plan]:
    yield from each("again", _again, _SIZES)(bench)
    yield from each("down three times", _comes_and_goes, (3,))(bench)


def _with_clocks(bench: NodeBench) -> Iterator[Plan]:
    yield from each("skewed", _skewed, _SIZES)(bench)
    yield from each("drifting", _drifting, (2,))(bench)


_SIZES = (3, 5, 3)
listed = held(_down, Run, proper, complete)  # within 5 s, by all that are up, in order
trusted = held(_up, Run, proper, accurate)  # nobody who has been up for 2 s
again = held(_down_again, Run, proper, complete)  # an outage does not stretch the next one's bound
skewed = held(_with_clocks, Run, proper, accurate, complete)  # clocks that differ change nothing
