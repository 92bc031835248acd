"""What is right in a run of cap_store: who must answer what and when, and sentences for what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable

from grader.exercises.cap_store.causes import (
    FALSE,
    NOT_TOLD,
    View,
    by_clock,
    clocked,
    crashed,
    empty,
    final,
    forwarded,
    holds,
    overwritten,
    too_soon,
    why_apart,
)
from grader.exercises.cap_store.plans import AGREED, PROMPT, SETTLED, START, TAKEN_OVER
from grader.nodes import registers
from grader.nodes.clients import DEFINITE, Asked
from grader.nodes.registers import Causes, Conflict, Operation, Unwritten, answered, by_key
from grader.nodes.runs import answer_text, in_time, same
from grader.says import at, listed
from grader.verdict import Diagnosis, Kind

# ---- words


def told(asked: Asked) -> str:
    """ "write of 3 to x at n1"."""
    return f"{_what(asked)} at {asked.ask.node}"


def _what(asked: Asked) -> str:
    """ "write of 3 to x"."""
    body = asked.ask.body
    key = body["key"] if isinstance(body["key"], str) else f"key {json.dumps(body['key'])}"
    if body["type"] == "read":
        return f"read of {key}"
    return f"write of {json.dumps(body['value'])} to {key}"


def _group(group: Iterable[str]) -> str:
    return "group {" + ", ".join(group) + "}"


# ---- answers as such


def proper(run: View) -> Diagnosis | None:
    """Every answer is read_ok with a value, write_ok, or an error with a code."""
    for one in run.asked:
        answer = one.answer
        if answer is None or answered(one):
            continue
        if answer.get("type") != "error":
            wanted = f"{one.ask.body['type']}_ok or an error"
        elif isinstance(answer.get("code"), bool) or not isinstance(answer.get("code"), int):
            wanted = "an error with a whole number as its code"
        else:
            continue
        text = f"The {told(one)} at {at(one.sent)} was answered with {answer_text(one)}. Answer with {wanted}."
        return run.wrong(
            "wrong_result", text, title="A wrong answer", shown=[one], expected=wanted, got=answer_text(one)
        )
    return None


def _late(run: View, one: Asked, who: str) -> Diagnosis:
    if one.answered is None:
        got = f"no answer within {min(run.plan.wait, run.story.end - one.sent):.1f} s"
        what = f"got {got}"
    else:
        got = f"an answer after {one.answered - one.sent:.2f} s"
        what = f"was answered only after {one.answered - one.sent:.2f} s"
    strays = run.strays(one)
    why = ""
    if strays:
        why = f" {one.ask.node} sent {strays[0].type} without in_reply_to. Answer with reply(request, body)."
    text = f"The {told(one)}, sent at {at(one.sent)}, {what}. {who}{why}"
    return run.wrong("not_available", text, title="Too late", shown=[one], expected="an answer within 2 s", got=got)


# ---- CP


def linearizable(run: View) -> Diagnosis | None:
    """One order of all reads and writes explains what clients saw."""
    for history in by_key(run.operations).values():
        found = registers.conflict(history)
        if isinstance(found, Unwritten):
            return _unwritten(run, found)
        if found is not None:
            return _stale(run, found)
    return None


def _unwritten(run: View, found: Unwritten) -> Diagnosis:
    one, refused = found.read.asked, found.refused
    text = f"The {told(one)} returned {found.read.value} at {at(found.read.end)}, but "
    if refused is None:
        text += "no client had written this value to this key. Return only values that were written, or null."
        key = one.ask.body["key"]
        written = (other.ask.body for other in run.asked if other.ask.body["type"] == "write")
        others = [body["key"] for body in written if same(body["value"], (one.answer or {}).get("value"))]
        if any(str(other) == str(key) and not same(other, key) for other in others):
            text += f" It was written to key {json.dumps(others[0])}. A number and a text are two keys."
        return run.wrong("wrong_result", text, title="A value that was never written", shown=[one])
    code = (refused.asked.answer or {}).get("code")
    text += (
        f"the {told(refused.asked)} was answered with error {code} at {at(refused.asked.answered or 0.0)}. Codes "
        f"{', '.join(map(str, sorted(DEFINITE)))} promise that the write never happens. Answer with error 0 or 13 as soon "
        "as some node may have stored the value: these codes leave the outcome open."
    )
    return run.wrong("not_linearizable", text, title="A refused write that happened", shown=[refused.asked, one])


def _stale(run: View, found: Conflict) -> Diagnosis:
    stale, known, first, second = found.stale, found.known, found.first, found.second
    one, other = stale.asked, known.asked
    text = (
        f"The {told(one)} from {at(one.sent)} to {at(stale.end)} returned {stale.value}, but earlier {_ended(known)}."
    )
    if first is not None:
        begun = f"this {known.what}" if second is known else f"the {told(second.asked)}"
        begun += f" that returned {second.value}" if second.what == "read" and second is not known else ""
        text += f" {known.value} is newer: {begun} began at {at(second.start)}, after {_ended(first)}."
    text += _why_stale(run, found)
    shown = [first.asked if first else None, second.asked, other, one]
    return run.wrong("not_linearizable", text, title="A stale read", shown=shown, expected=known.value, got=stale.value)


def _ended(one: Operation) -> str:
    if one.what == "write":
        return f"{one.node} had confirmed the write of {one.value} to the same key at {at(one.end)}"
    return f"a read at {one.node} had returned {one.value} at {at(one.end)}"


def _why_stale(run: View, found: Conflict) -> str:
    """The usual mistake that the evidence points to."""
    one, size = found.stale.asked, len(run.names)
    for operation in (found.known, found.stale):
        asked = operation.asked
        heard = run.heard(asked)
        if 2 * (len(heard) + 1) > size or forwarded(run, asked):
            continue
        cut = run.side(asked.ask.node, asked.sent, asked.answered or asked.sent)
        where = f"{asked.ask.node}, then in {_group(cut[1])}," if cut else asked.ask.node
        what = f"confirmed the {_what(asked)}" if operation.what == "write" else f"answered the {_what(asked)}"
        if not heard:
            return (
                f" {where} {what} without hearing from any other node. In CP mode a node must ask the others, and "
                "answer an error if it cannot reach a majority."
            )
        return f" {where} {what} after it had heard only from {listed(sorted(heard))}. {_too_few(heard, size)}"
    rule = (
        " Check three things. A write needs a number that no other write has, above all that a majority knows. It may be "
        "confirmed only after a majority keeps it. A read must ask a majority, and the newer value must win at every node."
    )
    if found.known.what == "read" and found.known.value == found.second.value:
        rule = " A value that is read may be on a minority only. Write it to a majority before you answer the read"
        rule += ", also if Python takes it for false." if found.known.value in FALSE else "."
        if found.known.node != one.ask.node:
            return rule
    return (
        clocked(run, found.known, found.stale)
        or overwritten(run, run.names, found.second.value, found.stale.value, found.stale.end)
        or too_soon(run, found.known)
        or rule
    )


def _too_few(heard: set[str], size: int) -> str:
    return (
        f"With itself that is {len(heard) + 1} of {size} nodes, and a majority is {size // 2 + 1}. Count each node once, and "
        "count only replies to this request."
    )


def refused(run: View) -> Diagnosis | None:
    """A node whose side has no majority answers no read and no write, from 2 s after the cut on."""
    for one in run.asked:
        found = run.minority(one.ask.node, one.sent - SETTLED, one.answered or one.sent)
        if found is None or not answered(one):
            continue
        cut, group = found
        size, heard = len(run.names), run.heard(one)
        what = "answered" if one.ask.body["type"] == "read" else "confirmed"
        text = (
            f"{one.ask.node}, in {_group(group)} since {at(cut.at)}, {what} the {_what(one)} at {at(one.answered or 0.0)}"
            f"{' with ' + answer_text(one) if what == 'answered' else ''}. In CP mode a node that cannot reach a majority "
            "must answer an error."
        )
        if 2 * len(group) == size:
            text += f" {len(group)} of {size} nodes are half of them and no majority: the other half could do the same."
        elif heard and 2 * (len(heard) + 1) <= size:
            text += f" {one.ask.node} had heard only from {listed(sorted(heard))}. {_too_few(heard, size)}"
        if not heard:
            text += f" {one.ask.node} heard from no other node in between."
        return run.wrong(
            "not_linearizable",
            text,
            title="An answer without a majority",
            shown=[one],
            expected="an error",
            got=answer_text(one),
        )
    return None


def prompt_errors(run: View) -> Diagnosis | None:
    """A node whose side has no majority answers within 2 s."""
    for one in run.asked:
        found = run.minority(one.ask.node, one.sent, one.sent + PROMPT)
        if found is None or in_time(one, PROMPT):
            continue
        who = (
            f"{one.ask.node} is in {_group(found[1])} and cannot reach a majority. Answer an error within 2 s, and do not "
            "wait for replies that cannot come."
        )
        at_once = [other for other in run.asked if other.reply and one.reply and other.reply.sent == one.reply.sent]
        at_once = [other for other in at_once if other.ask.node == one.ask.node]
        if not answered(one) and len({other.sent for other in at_once}) > 1:
            who += (
                f" {one.ask.node} answered {len(at_once)} requests at the same moment, although they were sent at different "
                "times. Give each request a timer of its own."
            )
        return _late(run, one, who)
    return None


def begins(run: View) -> Diagnosis | None:
    """Before anything was cut everything is answered, and in time."""
    return goes_on(run, later=False)


def goes_on(run: View, later: bool = True) -> Diagnosis | None:
    """Without a partition, and on the larger side of one, everything is answered, and in time."""
    for one in run.asked:
        end = one.sent + PROMPT
        whole = run.uncut_since(one.sent, end)
        cut = run.side(one.ask.node, one.sent - TAKEN_OVER, end)
        if whole is not None and one.sent >= (whole + AGREED if whole else START) and (later or not whole):
            who = "The network had never been cut, so every request must succeed."
            if whole:
                who = f"The network had been whole since {at(whole)}. Every request must succeed from 5 s after that."
        elif later and cut is not None and 2 * len(cut[1]) > len(run.names):
            who = f"{one.ask.node} was in {_group(cut[1])} since {at(cut[0].at)}. This is a majority, so it must go on serving."
        else:
            continue
        if not in_time(one, PROMPT):
            return _late(run, one, who)
        if not answered(one):
            text = f"The {told(one)} at {at(one.sent)} was answered with {answer_text(one)}. {who}"
            return run.wrong(
                "not_available", text, title="An error instead", shown=[one], expected="an answer", got=answer_text(one)
            )
    return None


# ---- AP


def available(run: View) -> Diagnosis | None:
    """Every node that is up answers every request within 2 s, and never by an error."""
    for one in run.asked:
        node, end = one.ask.node, min(one.sent + PROMPT, run.story.end)
        if not run.up(node, one.sent, end) or (end < one.sent + PROMPT and one.answered is None):
            continue
        side = run.side(node, one.sent, one.sent)
        where = f"{node} is up, in {_group(side[1])} since {at(side[0].at)}" if side else f"{node} is up"
        gone = [name for name in run.names if not run.up(name, one.sent, min(one.answered or end, end))]
        where += f" while {listed(sorted(gone))} {'is' if len(gone) == 1 else 'are'} down" if gone else ""
        if not in_time(one, PROMPT):
            return _late(run, one, f"{where}. In AP mode a node must answer with what it has.")
        if not answered(one):
            text = (
                f"The {told(one)} at {at(one.sent)} was answered with {answer_text(one)}. {where}. In AP mode a node must "
                "answer with what it has, even if it reaches no other node."
            )
            return run.wrong(
                "not_available",
                text,
                title="An error in AP mode",
                shown=[one],
                expected="an answer",
                got=answer_text(one),
            )
    return None


def own_words(run: View) -> Diagnosis | None:
    """A node never goes back behind what it has confirmed or shown, and shows only what was written."""
    for history in by_key(run.operations).values():
        causes = Causes(history)
        for read in history:
            if read.what != "read":
                continue
            if read.value not in (registers.NOTHING, *causes.writes):
                return _unwritten(run, Unwritten(read))
            for seen in causes.seen(read.node, read.start):
                if read.value in causes.followed(seen.value):
                    said = "confirmed the write of" if seen.what == "write" else "answered a read with"
                    text = (
                        f"The {told(read.asked)} at {at(read.start)} returned {read.value}, but {read.node} itself had "
                        f"{said} {seen.value} at {at(seen.end)}. {seen.value} is newer than {read.value}. A node must "
                        "never return an older value than it has confirmed or returned before."
                    )
                    shown = [seen.asked, read.asked]
                    return run.wrong(
                        "wrong_result", text, title="An older value", shown=shown, expected=seen.value, got=read.value
                    )
    return None


def agreed(run: View) -> Diagnosis | None:
    """In the end all nodes return the same."""
    healed = run.plan.healed or 0.0
    apart = [(reads[0], other) for reads in final(run) for other in reads[1:] if other.value != reads[0].value]
    if not apart:
        return None
    # First values that can be told from counts, in messages.
    one, other = min(apart, key=lambda pair: bool({pair[0].value, pair[1].value} & FALSE))
    untold = empty(run, one.node, other.value) or empty(run, other.node, one.value)
    text = (
        f"All faults were over at {at(healed)}. {one.start - healed:.1f} s later {one.node} returned {one.value} for "
        f"key {other.asked.ask.body['key']}, but {other.node} returned {other.value}. "
        f"{untold or why_apart(run, healed, one, other)}"
    )
    title = NOT_TOLD if untold else "Nodes that still disagree"
    return run.wrong(
        "not_converged", text, title=title, shown=[one.asked, other.asked],
        expected="one value on all nodes", got=f"{one.value} on {one.node}, {other.value} on {other.node}",
    )  # fmt: skip


def kept(run: View) -> Diagnosis | None:
    """In the end no node returns a value that a confirmed write followed."""
    finals = list(final(run))
    for reads in finals:
        if not reads:
            continue
        key = reads[0].key
        history = [one for one in run.operations if one.key == key]
        causes = Causes([one for one in history if one not in reads])
        for read in reads:
            if read.value not in (registers.NOTHING, *causes.writes):
                return _unwritten(run, Unwritten(read))
            lost = causes.overtook(read.value)
            if lost is not None:
                return _lost(run, causes, read, lost)
    return None


def _lost(run: View, causes: Causes, read: Operation, lost: Operation) -> Diagnosis:
    key, shown = read.asked.ask.body["key"], [lost.asked, read.asked]
    text = f"In the end {read.node} returned {read.value} for key {key}, but {lost.node} had confirmed the write of {lost.value}. "
    text += f"The client had this answer at {at(lost.end)}."
    kind: Kind = "lost_or_duplicated"
    crashes = [begin for begin, _ in run.downs[lost.node] if begin >= lost.end - 0.1]
    if read.value != registers.NOTHING:
        knew = next((one for one in causes.seen(lost.node, lost.start) if one.value == read.value), None)
        if knew is not None:
            how = "confirmed" if knew.what == "write" else "returned"
            text += f" {lost.node} itself had {how} {read.value} before, at {at(knew.end)}."
            shown.insert(0, knew.asked)
        text += f" So {lost.value} is newer and must win."
    untold = empty(run, read.node, lost.value)
    if crashes:
        kind = "not_durable"
    if over := overwritten(run, [lost.node], lost.value, read.value, read.end):
        text += over
    elif crashes:
        text += crashed(run, lost, crashes[0])
    elif untold:
        text += f" {untold}"
    elif read.value == registers.NOTHING:
        reads = (one for reads in final(run) for one in reads)
        own = next((one.value for one in reads if (one.node, one.key) == (lost.node, read.key)), lost.value)
        text += " A confirmed write must not get lost."
        if own != lost.value:
            text += f" {lost.node} itself returned {own}. Keep what is confirmed until a newer write takes its place."
        elif not any(holds(message.body, lost.value) for message in run.reached(read.node)):
            text += (
                f" No message that reached {read.node} held {lost.value}. Keep it until a newer write takes its place, "
            )
            text += "and bring it to every node."
    elif read.value in causes.writes:
        writer = causes.writes[read.value].node
        apart = run.offsets[writer] - run.offsets[lost.node]
        ahead = apart > max(1.0, lost.start - causes.writes[read.value].start)
        if ahead and by_clock(run, causes.writes[read.value]):
            text += (
                f" The clock of {writer}, where {read.value} was written, is {apart:.0f} s ahead of {lost.node}'s. Do not "
                "order writes by clocks: count on from the highest number that the node has seen."
            )
    title = NOT_TOLD if untold and not crashes else "A confirmed write is gone"
    return run.wrong(kind, text, title=title, shown=shown, expected=lost.value, got=read.value)
