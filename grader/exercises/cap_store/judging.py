"""What is right in a run of cap_store: who must answer what and when, and sentences for what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from grader.exercises.cap_store import registers
from grader.exercises.cap_store.plans import AGREED, PROMPT, SETTLED, START, TAKEN_OVER
from grader.exercises.cap_store.registers import Causes, Conflict, Operation, Unwritten, by_key, operations
from grader.nodes.clients import DEFINITE, Asked
from grader.nodes.plan import Mishap, Played
from grader.trace.story import Sent
from grader.verdict import Diagnosis, Kind


class Run:
    """A played plan, and what judges ask of it."""

    def __init__(self, played: Played) -> None:
        self.plan, self.story = played.plan, played.sim.story
        self.names = tuple(member.name for member in played.plan.members)
        self.file = played.sim.file
        self.asked = sorted(
            (one for client in played.clients.values() for one in client.done), key=lambda one: one.sent
        )
        self.operations = operations(self.asked)

    # ---- when nodes can reach whom

    def cuts(self) -> list[Mishap]:
        return [mishap for mishap in self.plan.mishaps if mishap.what == "partition"]

    def side(self, node: str, since: float, until: float) -> tuple[Mishap, tuple[str, ...]] | None:
        """The partition that lasted all this time, and the node's group in it."""
        for cut in self.cuts():
            if cut.at <= since and until <= cut.until:
                for group in cut.groups:
                    if node in group:
                        return cut, group
        return None

    def minority(self, node: str, since: float, until: float) -> tuple[Mishap, tuple[str, ...]] | None:
        found = self.side(node, since, until)
        return found if found and 2 * len(found[1]) <= len(self.names) else None

    def whole_since(self, since: float, until: float) -> float | None:
        """From when on nothing was cut up to `until`: 0 if nothing ever was; None if something was in between."""
        if any(cut.at < until and since < cut.until for cut in self.cuts()):
            return None
        return max((cut.until for cut in self.cuts() if cut.until <= since), default=0.0)

    def down(self, node: str) -> list[tuple[float, float]]:
        """When a node was down."""
        lost = [fault for fault in self.story.faults if fault.what == "down" and fault.groups == ((node,),)]
        return [(fault.since, fault.until) for fault in lost]

    def up(self, node: str, since: float, until: float) -> bool:
        return not any(begin <= until and since <= end for begin, end in self.down(node))

    # ---- what was sent

    def messages(self, asked: Asked) -> tuple[Sent | None, Sent | None]:
        """A request, and its answer."""
        request = answer = None
        for message in self.story.sent:
            if message.src == asked.client and message.sent == asked.sent:
                request = message
            if message.dst == asked.client and message.fate == "delivered" and message.arrived == asked.answered:
                answer = message
        return request, answer

    def mark(self, *asked: Asked | None) -> None:
        for one in asked:
            if one is not None:
                self.story.marked |= {message.number for message in self.messages(one) if message is not None}

    def line(self, asked: Asked) -> int | None:
        answer = self.messages(asked)[1]
        return answer.line if answer else None

    def heard(self, asked: Asked) -> set[str]:
        """Which other nodes a node had heard from between a request and its answer."""
        request, answer = self.messages(asked)
        if request is None or answer is None or request.arrived is None:
            return set(self.names)
        return {
            message.src for message in self.story.sent
            if message.dst == asked.ask.node and message.src in self.names and message.fate == "delivered"
            and message.src != message.dst and request.arrived <= (message.arrived or 0) <= answer.sent
        }  # fmt: skip

    def found(
        self,
        kind: Kind,
        message: str,
        title: str,
        shown: Iterable[Asked | None] = (),
        expected: str = "",
        got: str = "",
    ) -> Diagnosis:
        """What is wrong, with the messages of `shown` marked; at the line that sent the last one's answer."""
        told = [one for one in shown if one is not None]
        self.mark(*told)
        self.story.title, self.story.subtitle = title, self.plan.label
        line = self.line(told[-1]) if told else None
        return Diagnosis(kind, message, None, self.file, line, expected or None, got or None)


# ---- words


def told(asked: Asked) -> str:
    """ "write of 3 to x at n1"."""
    body = asked.ask.body
    if body["type"] == "read":
        return f"read of {body['key']} at {asked.ask.node}"
    return f"write of {json.dumps(body['value'])} to {body['key']} at {asked.ask.node}"


def _answer(asked: Asked) -> str:
    answer = asked.answer or {}
    if answer.get("type") == "error":
        return f"error {answer.get('code')}"
    return json.dumps({name: answer[name] for name in answer if name != "in_reply_to"})[:100]


def _at(time: float | None) -> str:
    return f"{time:.2f} s"


def _group(group: Iterable[str]) -> str:
    return "{" + ", ".join(group) + "}"


def _all(names: Iterable[str]) -> str:
    *first, last = sorted(names)
    return f"{', '.join(first)} and {last}" if first else last


# ---- answers as such


def _ok(asked: Asked) -> bool:
    return registers.answered(asked)


def proper(run: Run) -> Diagnosis | None:
    """Every answer is read_ok with a value, write_ok, or an error with a code."""
    for one in run.asked:
        answer = one.answer
        if answer is None or _ok(one):
            continue
        if answer.get("type") != "error" or isinstance(answer.get("code"), bool):
            wanted = f"{one.ask.body['type']}_ok"
        elif not isinstance(answer.get("code"), int):
            wanted = "a code that is a whole number"
        else:
            continue
        text = f"The {told(one)} at {_at(one.sent)} was answered by {_answer(one)}; expected {wanted}, or an error."
        if answer.get("type") == "read_ok":
            text += ' A read_ok carries the value as "value".'
        return run.found("wrong_result", text, "No such answer", [one], wanted, _answer(one))
    return None


def unanswered(run: Run, one: Asked) -> str:
    """Why there may have been no answer, from what the node did send."""
    strays = [
        message for message in run.story.sent
        if message.src == one.ask.node and message.dst == one.client and message.sent >= one.sent
        and message.body.get("in_reply_to") is None
    ]  # fmt: skip
    if strays:
        return f" It sent {strays[0].type}, without in_reply_to: answer with reply(request, body)."
    return ""


def _late(run: Run, one: Asked, who: str) -> Diagnosis:
    if one.answered is None:
        got = f"no answer within {min(run.plan.wait, run.story.end - one.sent):.1f} s"
        what = f"got {got}"
    else:
        got = f"an answer after {one.answered - one.sent:.2f} s"
        what = f"was answered after {one.answered - one.sent:.2f} s only"
    text = f"The {told(one)}, sent at {_at(one.sent)}, {what}. {who}{unanswered(run, one)}"
    return run.found("not_available", text, "Too late", [one], "an answer within 2 s", got)


def _in_time(one: Asked) -> bool:
    return one.answered is not None and one.answered - one.sent <= PROMPT


# ---- CP


def linearizable(run: Run) -> Diagnosis | None:
    """One order of all reads and writes explains what clients saw."""
    for history in by_key(run.operations).values():
        found = registers.conflict(history)
        if isinstance(found, Unwritten):
            return _unwritten(run, found)
        if found is not None:
            return _stale(run, found)
    return None


def _unwritten(run: Run, found: Unwritten) -> Diagnosis:
    one, refused = found.read.asked, found.refused
    text = f"The {told(one)} returned {found.read.value} at {_at(one.answered)}, "
    if refused is None:
        return run.found("wrong_result", text + "which nobody ever wrote to that key.", "A value from nowhere", [one])
    code = (refused.asked.answer or {}).get("code")
    text += (
        f"but the {told(refused.asked)} was answered by error {code} at {_at(refused.asked.answered)}: codes "
        f"{', '.join(map(str, sorted(DEFINITE)))} promise that nothing happened. A write of which some node may know is "
        "answered by 0 or 13: it may have happened, or happen yet."
    )
    return run.found("not_linearizable", text, "It happened after all", [refused.asked, one])


def _stale(run: Run, found: Conflict) -> Diagnosis:
    stale, known, first, second = found.stale, found.known, found.first, found.second
    one, other = stale.asked, known.asked
    text = f"The {told(one)} from {_at(one.sent)} to {_at(one.answered)} returned {stale.value}, but "
    if known.what == "write":
        text += f"{known.node} had confirmed the write of {known.value} at {_at(known.end)}"
    else:
        text += f"a read at {known.node} had returned {known.value} by {_at(known.end)}"
    if first is None:
        text += "."
    else:
        done = "confirmed" if first.what == "write" else "read"
        begun = "which" if second is known else f"and the {told(second.asked)}"
        begun += f" that returned {second.value}" if second.what == "read" and second is not known else ""
        text += f", {begun} began at {_at(second.start)}, after {first.value} had been {done} at {first.node} ({_at(first.end)})."
    text += _why_stale(run, found)
    shown = [first.asked if first else None, second.asked, other, one]
    return run.found("not_linearizable", text, "A read that goes back", shown, known.value, stale.value)


def _why_stale(run: Run, found: Conflict) -> str:
    """The usual mistake that the evidence points to."""
    one, size = found.stale.asked, len(run.names)
    for operation in (found.known, found.stale):
        asked = operation.asked
        heard = run.heard(asked)
        if 2 * (len(heard) + 1) > size:
            continue
        cut = run.side(asked.ask.node, asked.sent, asked.answered or asked.sent)
        where = f"{asked.ask.node}, in {_group(cut[1])} then," if cut else asked.ask.node
        what = f"confirmed the {told(asked)}" if operation.what == "write" else f"answered the {told(asked)}"
        if not heard:
            return (
                f" {where} {what} without hearing from any other node: in CP mode a node that cannot reach a majority must "
                "answer an error, and it knows only when it asks."
            )
        return (
            f" {where} {what} when it had heard from {_all(heard)} only: with itself that is {len(heard) + 1} of {size} "
            "nodes, no majority. Is an answer counted twice, or one that belongs to an earlier request?"
        )
    if found.known.what == "read" and found.known.value == found.second.value and found.known.node != one.ask.node:
        return " Whoever reads a value that may be with a minority only has to give it to a majority before it answers."
    return ""


def refused(run: Run) -> Diagnosis | None:
    """A node whose side has no majority answers no read and no write, from 2 s after the cut on."""
    for one in run.asked:
        found = run.minority(one.ask.node, one.sent - SETTLED, one.answered or one.sent)
        if found is None or not _ok(one):
            continue
        cut, group = found
        size, heard = len(run.names), run.heard(one)
        was = f"read with {_answer(one)}" if one.ask.body["type"] == "read" else "write"
        text = (
            f"{one.ask.node}, in {_group(group)} since {_at(cut.at)}, {'answered the' if was[0] == 'r' else 'confirmed the'} "
            f"{told(one)} at {_at(one.answered)}{' by ' + _answer(one) if was[0] == 'r' else ''}: "
        )
        if 2 * len(group) == size:
            text += f"{len(group)} of {size} nodes are a half and no majority, and the other half could do the same."
        else:
            text += "in CP mode a node that cannot reach a majority must answer an error."
        if heard and 2 * (len(heard) + 1) <= size and 2 * len(group) != size:
            text += f" It had heard from {_all(heard)}: is an answer, or the node itself, counted twice?"
        elif not heard:
            text += " It heard from no other node in between."
        return run.found("not_linearizable", text, "No majority, and yet an answer", [one], "an error", _answer(one))
    return None


def prompt_errors(run: Run) -> Diagnosis | None:
    """A node whose side has no majority answers within 2 s."""
    for one in run.asked:
        found = run.minority(one.ask.node, one.sent, one.sent + PROMPT)
        if found is None or _in_time(one):
            continue
        who = (
            f"{one.ask.node} is in {_group(found[1])} and can reach no majority: it must say so by an error within 2 s, "
            "instead of waiting for answers that cannot come."
        )
        return _late(run, one, who)
    return None


def begins(run: Run) -> Diagnosis | None:
    """Before anything was cut everything is answered, and in time."""
    return goes_on(run, later=False)


def goes_on(run: Run, later: bool = True) -> Diagnosis | None:
    """Without a partition, and on the larger side of one, everything is answered, and in time."""
    for one in run.asked:
        end = one.sent + PROMPT
        whole = run.whole_since(one.sent, end)
        cut = run.side(one.ask.node, one.sent - TAKEN_OVER, end)
        if whole is not None and one.sent >= (whole + AGREED if whole else START) and (later or not whole):
            when = f"The network has been whole since {_at(whole)}" if whole else "The network was never cut so far"
            who = f"{when}: {'a cluster must work again within 5 s' if whole else 'every request must be answered'}."
        elif later and cut is not None and 2 * len(cut[1]) > len(run.names):
            who = f"{one.ask.node} is in {_group(cut[1])} since {_at(cut[0].at)}, which is a majority, and must go on."
        else:
            continue
        if not _in_time(one):
            return _late(run, one, who)
        if not _ok(one):
            text = f"The {told(one)} at {_at(one.sent)} was answered by {_answer(one)}. {who}"
            return run.found("not_available", text, "It does not work", [one], "an answer", _answer(one))
    return None


# ---- AP


def available(run: Run) -> Diagnosis | None:
    """Every node that is up answers every request within 2 s, and never by an error."""
    for one in run.asked:
        node, end = one.ask.node, min(one.sent + PROMPT, run.story.end)
        if not run.up(node, one.sent, end) or (end < one.sent + PROMPT and one.answered is None):
            continue
        side = run.side(node, one.sent, one.sent)
        where = f"{node} is up, in {_group(side[1])} since {_at(side[0].at)}" if side else f"{node} is up"
        gone = [name for name in run.names if not run.up(name, one.sent, end)]
        where += f" while {_all(gone)} {'is' if len(gone) == 1 else 'are'} down" if gone else ""
        if not _in_time(one):
            return _late(run, one, f"{where}: in AP mode it must answer with what it has.")
        if not _ok(one):
            text = (
                f"The {told(one)} at {_at(one.sent)} was answered by {_answer(one)}. {where}: in AP mode every node "
                "answers, also one that reaches nobody."
            )
            return run.found("not_available", text, "AP, and no answer", [one], "an answer", _answer(one))
    return None


def own_words(run: Run) -> Diagnosis | None:
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
                        f"The {told(read.asked)} at {_at(read.start)} returned {read.value}, but {read.node} itself had "
                        f"{said} {seen.value} at {_at(seen.end)}, which is later: a node must at least know what it said."
                    )
                    shown = [seen.asked, read.asked]
                    return run.found("wrong_result", text, "Forgotten", shown, seen.value, read.value)
    return None


def _final(run: Run) -> Iterator[list[Operation]]:
    """For each key, the reads that were asked for 5 s or more after all faults and writes."""
    ends = [run.plan.healed or 0.0, *(mishap.until for mishap in run.plan.mishaps)]
    for history in by_key(run.operations).values():
        time = AGREED + max(max(ends), *(one.start for one in history if one.what == "write"), 0.0)
        yield [one for one in history if one.what == "read" and one.start >= time]


def agreed(run: Run) -> Diagnosis | None:
    """In the end all nodes return the same."""
    healed = run.plan.healed or 0.0
    for reads in _final(run):
        for other in reads[1:]:
            if other.value == reads[0].value:
                continue
            one, key = reads[0], other.asked.ask.body["key"]
            text = (
                f"{one.start - healed:.1f} s after all was whole again (at {_at(healed)}) {one.node} reads {key} as "
                f"{one.value}, but {other.node} as {other.value}. {_why_apart(run, healed, one, other)}"
            )
            return run.found(
                "not_converged", text.strip(), "Apart for ever", [one.asked, other.asked],
                "one value on all nodes", f"{one.value} on {one.node}, {other.value} on {other.node}",
            )  # fmt: skip
    return None


def _why_apart(run: Run, healed: float, one: Operation, other: Operation) -> str:
    since = [
        message for message in run.story.sent
        if message.src in run.names and message.dst in run.names and message.src != message.dst and message.sent >= healed
    ]  # fmt: skip
    if not since:
        return (
            "After the healing no node sent anything to another: nobody tells them that the network is whole again, so "
            "they have to try, by a timer."
        )
    fates = {message.fate for message in run.story.sent if message.src == one.node and message.dst == other.node}
    talked = {(message.src, message.dst) for message in since}
    silent = [name for name in (one.node, other.node) if not any(name == src for src, _ in talked)]
    if silent:
        return f"After the healing {_all(silent)} sent nothing to another node: what it alone has, nobody can know."
    writes = {operation.value: operation for operation in run.operations if operation.what == "write"}
    first, second = writes.get(one.value), writes.get(other.value)
    if first and second and fates and first.node != second.node:
        return (
            f"{one.value} was written at {first.node} at {_at(first.start)}, {other.value} at {second.node} at "
            f"{_at(second.start)}: of two writes that do not know of each other all nodes must prefer the same one, "
            "whichever they hear of last."
        )
    return "The nodes do talk to each other, but not about all that they have."


def kept(run: Run) -> Diagnosis | None:
    """In the end no node returns a value that a confirmed write followed."""
    finals = list(_final(run))
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


def _lost(run: Run, causes: Causes, read: Operation, lost: Operation) -> Diagnosis:
    key, shown = read.asked.ask.body["key"], [lost.asked, read.asked]
    text = f"In the end {read.node} reads {key} as {read.value}, but {lost.node} had confirmed the write of {lost.value} at {_at(lost.end)}"
    kind: Kind = "lost_or_duplicated"
    crashes = [begin for begin, _ in run.down(lost.node) if begin >= lost.end - 0.1]
    if read.value != registers.NOTHING:
        knew = next((one for one in causes.seen(lost.node, lost.start) if one.value == read.value), None)
        if knew is not None:
            how = "confirmed" if knew.what == "write" else "shown"
            text += f", after it had itself {how} {read.value} at {_at(knew.end)}"
            shown.insert(0, knew.asked)
        text += f": {lost.value} came later and must win, by whatever clock"
    if crashes:
        kind = "not_durable"
        text += (
            f". {lost.node} crashed at {_at(crashes[0])}, and only what is on disk survives that: the value, and what says "
            "how late it is, before the answer is sent"
        )
    elif read.value == registers.NOTHING:
        text += ": a write that was confirmed may not get lost"
    offsets = {member.name: member.offset for member in run.plan.members}
    if not crashes and read.value in causes.writes and read.value != registers.NOTHING:
        writer = causes.writes[read.value].node
        apart = offsets[writer] - offsets[lost.node]
        if apart > max(1.0, lost.start - causes.writes[read.value].start):
            text += (
                f". The clock of {writer}, where {read.value} was written, is {apart:.0f} s ahead of {lost.node}'s: do "
                "clocks decide? Count instead, from the highest number that the node has seen"
            )
    return run.found(kind, text + ".", "A confirmed write is gone", shown, lost.value, read.value)


def pick(*judges: Any) -> Any:
    """A judge of a played plan: the first of these that finds something."""

    def judge(played: Played) -> Diagnosis | None:
        run = Run(played)
        return next((found for one in (proper, *judges) if (found := one(run)) is not None), None)

    return judge
