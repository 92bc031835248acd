"""What transactions promise, held against what clients were told and what they read.

Nothing is asked of the messages between nodes: any protocol that keeps the promises is right.
"""

from __future__ import annotations

import json
import math
from typing import Any

from grader.exercises.two_phase_commit import history
from grader.exercises.two_phase_commit.history import (
    COORDINATOR,
    DECIDED,
    OUTCOMES,
    PROMPT,
    History,
    Read,
    Txn,
    mentions,
)
from grader.nodes.runs import place, same
from grader.says import counted, listed
from grader.trace.story import Happened, Sent
from grader.verdict import Diagnosis, Kind

LOAD = 5  # transactions that begin while another one is open, from which on a diagnosis tells of them


class Judging(History):
    """Of one run. Every method that is no helper returns what is wrong, or None."""

    def broken(
        self, kind: Kind, text: str, *shown: Sent | None, expected: str = "", got: str = "", why: bool = True,
        advice: str = "",
    ) -> Diagnosis:  # fmt: skip
        """What is wrong, with what befell nodes before it, and the line of the first shown message that has one. `advice`
        stands for the rule that the faults suggest."""
        line = next((sent.line for sent in shown if sent is not None and sent.line), None)
        account = history.account(self.story) if why else history.Account()
        self.story.blamed |= account.blamed
        return self.wrong(
            kind, account.added_to(text, advice), shown=shown, line=account.line or line, expected=expected, got=got
        )

    def of(self, node: str, key: str, value: Any) -> Txn | None:
        """The transaction that writes this value there. Values are unique."""
        for txn in self.txns:
            entries = txn.writes.get(node, {})
            if key in entries and same(entries[key], value):
                return txn
        return None

    # ---- answers

    def shape(self) -> Diagnosis | None:
        """Every answer is one of the two, and says which transaction and which request it is about."""
        for txn in self.txns:
            for sent in txn.told:
                body = sent.body
                right = (("txn", txn.name), ("in_reply_to", txn.number))
                lacks = [field for field, value in right if not same(body.get(field), value)]
                if sent.type not in OUTCOMES or lacks:
                    wanted = {"type": "committed or aborted", "txn": txn.name, "in_reply_to": txn.number}
                    what = "Its type must be committed or aborted."
                    if lacks:
                        what = f"Take {' and '.join(lacks)} from the request, and answer with reply(request, body)."
                    return self.broken(
                        "wrong_result", f"The answer to begin {txn.label} is {json.dumps(body)[:200]}. {what}", sent,
                        expected=json.dumps(wanted), got=json.dumps(body)[:200], why=False,
                    )  # fmt: skip
        return None

    def unanimous(self) -> Diagnosis | None:
        """No client is told two different things."""
        for txn in self.txns:
            for sent in txn.told[1:]:
                if sent.type != txn.told[0].type:
                    first = txn.told[0]
                    return self.broken(
                        "not_atomic",
                        f"The client was told at {first.arrived:.2f} s that {txn.label} is {first.type}, and at "
                        f"{sent.arrived:.2f} s that it is {sent.type}. A transaction must have one outcome.", sent, first, expected=first.type, got=sent.type,
                    )  # fmt: skip
        return None

    def prompt(self) -> Diagnosis | None:
        """Without faults every transaction is answered within 2 s."""
        for txn in self.txns:
            late = txn.answered is None or txn.answered - txn.sent > PROMPT
            if late and txn.sent >= self.quiet:
                took = "not answered" if txn.answered is None else f"answered after {txn.answered - txn.sent:.2f} s"
                when, fault = f"was {took}", "All faults were over" if self.whole_since else "There was no fault"
                return self.broken(
                    "not_available",
                    f"begin {txn.label}, sent at {txn.sent:.2f} s, {when}. {fault}. Answer within {PROMPT:g} s.",
                    *txn.told[:1], expected="an answer within 2 s", got=when,
                )  # fmt: skip
        return None

    def decided(self) -> Diagnosis | None:
        """A coordinator that never crashed answers everything, at the latest 5 s after the last fault."""
        if any(event.what == "crash" and event.node == COORDINATOR for event in self.story.events):
            return None
        for txn in self.txns:
            until = max(self.whole_since, txn.sent) + DECIDED
            if until <= self.plan.until and (txn.answered is None or txn.answered > until):
                return self.broken(
                    "not_available",
                    f"begin {txn.label}, sent at {txn.sent:.2f} s, was not answered by {until:.2f} s. {COORDINATOR} never "
                    f"crashed, and nothing failed after {self.whole_since:.2f} s. Decide within 5 s after that.", *txn.told[:1],
                    advice=" A message may be lost, and a participant may crash, so ask again for a missing vote, or abort." + self._meanwhile(txn, until),
                )  # fmt: skip
        return None

    def _meanwhile(self, txn: Txn, until: float) -> str:
        """What a steady load may have put off, or what has to end at the same time."""
        at_once = sum(abs(other.sent - txn.sent) < 0.1 for other in self.txns)
        if at_once > LOAD:
            return (
                f" {at_once} transactions began within 0.1 s, and each of them must end in these 5 s. Ask for all missing "
                "outcomes at the same time, not for one after another."
            )
        begun = [other for other in self.txns if txn.sent < other.sent < until]
        others = [other for other in begun if not set(other.places()) & set(txn.places())]
        if len(others) < LOAD:
            return ""
        return (
            f" From {txn.sent:.2f} to {until:.2f} s, {len(others)} transactions on other keys began. They must not delay the "
            f"end of {txn.label}. If each of them sets the same timer again, this timer never goes off, because setting a "
            "timer again moves it. Use one timer for each transaction, or leave a timer alone that is already running."
        )

    def _copy(self, txn: Txn) -> Sent | None:
        """A copy that the network made of a message to one of its participants."""
        copies = (one for one in self.story.sent if one.copy and one.fate == "delivered" and one.dst in txn.writes)
        return next((one for one in copies if mentions(one.body, txn.name)), None)

    # ---- votes

    @property
    def quiet(self) -> float:
        """From when on nothing that failed before may show."""
        return self.whole_since + DECIDED if self.whole_since else 0.0

    def clean(self) -> Diagnosis | None:
        """A transaction that nothing stands in the way of is committed."""
        for txn in self.txns:
            others = [other for other in self.txns if other is not txn and set(other.places()) & set(txn.places())]
            near = [o for o in others if txn.sent - DECIDED < o.sent < (txn.answered or txn.sent + PROMPT)]
            if txn.sent < self.quiet or near or txn.outcome == "committed":
                continue
            said = "was not answered" if txn.outcome is None else f"was {txn.outcome}"
            before = [o for o in others if o.sent < txn.sent]
            if not before:
                why = "No other transaction writes any of its keys, so every participant must vote yes"
                if copy := self._copy(txn):
                    why += (
                        f". A copy of {copy.src}'s {copy.type} about it{place(copy.line)} reached {copy.dst}, too. Once "
                        f"{copy.dst} has voted yes, a copy must not make it vote no. A transaction's own locks are no conflict"
                    )
            else:
                last = [one for one in before if set(one.places()) & _not_in(one, before, txn)]
                told = listed(f"{one.label} ({one.outcome or 'never answered'})" for one in last)
                which = f"last {counted(len(last), 'transaction')}" if len(last) > 1 else "last transaction"
                why = (
                    f"The {which} on its keys{f', {told},' if len(last) < LOAD else ''} began "
                    f"{txn.sent - last[-1].sent:.1f} s before, and must have unlocked them"
                )
            if self.whole_since and before:
                why += f" by {max(self.whole_since, before[-1].sent) + 5:.1f} s, 5 s after the last fault"
            load = self._meanwhile(before[-1], txn.sent) if before else ""
            load = load or self.in_vain(before, txn.sent) or self.told_of_the_abort(before, txn.sent)
            return self.broken(
                "not_available" if self.whole_since or before else "wrong_result",
                f"Transaction {txn.label}, begun at {txn.sent:.2f} s, {said} and must be committed. {why}.", *txn.told[:1],
                expected="committed", got=txn.outcome or "no answer", why=bool(before) and bool(self.whole_since), advice=load,
            )  # fmt: skip
        return None

    def locked(self) -> Diagnosis | None:
        """Who is prepared for one transaction votes no on another that wants one of its keys."""
        for first in self.txns:
            for second in self.txns:
                if first is second or second.outcome != "committed":
                    continue
                for node, key in sorted(set(first.places()) & set(second.places())):
                    asked, silent = self._asked_while_prepared(node, first, second)
                    if asked is not None:
                        return self.broken(
                            "wrong_result",
                            f"{node} was asked about {second.label}, which writes {key!r} there, at {asked.arrived:.3f} s. By "
                            f"then it had voted yes on {first.label}, which writes {key!r} too, and {silent} had not voted on "
                            f"{first.label} yet. So {node} must vote no, but {second.label} was committed. "
                            f"{self._why_committed(node, first, second, silent, asked)}",
                            asked, *second.told[:1], expected="aborted", got="committed", why=False,
                        )  # fmt: skip
        return None

    def _why_committed(self, node: str, first: Txn, second: Txn, silent: str, asked: Sent) -> str:
        """What the run shows of why the second transaction was committed, and what to do."""
        since = asked.arrived or 0.0
        for txn, of in ((first, silent), (second, node)):
            if txn.outcome != "committed":
                continue
            told = txn.told[0].sent
            if not any(one.src == of and mentions(one.body, txn.name) for one in self.between(txn.sent, told)):
                return (
                    f"{COORDINATOR} told the client at {told:.3f} s that {txn.label} is committed, before {of} had sent any "
                    "message about it. Commit only when every participant has voted yes."
                )
        voted = self._heard(node, first)[0].arrived or 0.0
        back = [e.at for e in self.story.events if e.what == "restart" and e.node == node and voted <= e.at <= since]
        if back:
            return (
                f"{node} had restarted at {back[-1]:.3f} s, between that vote and this question. After a restart, lock the keys of "
                "every yes vote whose outcome is not applied, before any message is handled."
            )
        return self._refused(node, second) or "Keep a key locked from the yes vote until the outcome is applied."

    def _refused(self, node: str, txn: Txn) -> str:
        """In words, if all that a participant said of a transaction before the outcome plainly was no, and it wrote nothing
        to its disk when it said so first."""
        said = self.between(txn.sent, txn.told[0].sent if txn.told else math.inf)
        said = [one for one in said if one.src == node and mentions(one.body, txn.name)]
        flags = {value for one in said for value in one.body.values() if isinstance(value, bool)}
        if flags != {False} or any((e.what, e.node, e.at) == ("write", node, said[0].sent) for e in self.story.events):
            return ""
        return (
            f"{node} had sent {said[0].dst} {json.dumps(said[0].body)[:200]}{place(said[0].line)}, and wrote nothing to its "
            "disk then. Commit only when every participant has voted yes."
        )

    def _asked_while_prepared(self, node: str, first: Txn, second: Txn) -> tuple[Sent | None, str]:
        """The message that asks `node` about `second` while it is prepared for `first`, if that can be seen: the first
        message that names `first` made it write to disk and say something, it was committed in the end, and when it
        heard of `second` another participant, which is named, had said nothing of `first` yet."""
        of_first, of_second = self._heard(node, first), self._heard(node, second)
        if first.outcome != "committed" or not of_first or not of_second:
            return None, ""
        at, asked = of_first[0].arrived, of_second[0].arrived
        if at is None or asked is None or not at < asked:
            return None, ""
        wrote = any(e.what == "write" and (e.node, e.at) == (node, at) for e in self.story.events)
        said = any((sent.src, sent.sent) == (node, at) and mentions(sent.body, first.name) for sent in self.story.sent)
        spoke = {s.src for s in self.story.sent if s.sent < asked and mentions(s.body, first.name)}
        silent = sorted(set(first.writes) - spoke)
        return (of_second[0], silent[0]) if wrote and said and silent else (None, "")

    def _heard(self, node: str, txn: Txn) -> list[Sent]:
        """The messages that name a transaction and reached the node, as they came."""
        sent = [s for s in self.story.sent if s.dst == node and s.fate == "delivered" and mentions(s.body, txn.name)]
        return sorted(sent, key=lambda s: s.arrived or 0.0)

    def one_of_two(self) -> Diagnosis | None:
        """Of two that meet at one participant only, one at least gets its yes."""
        for one in self.txns:
            for two in self.txns:
                others = [t for t in self.txns if t not in (one, two) and abs(t.sent - one.sent) < DECIDED]
                near = any(set(t.places()) & {*one.places(), *two.places()} for t in others)
                meet = {node for node, _ in set(one.places()) & set(two.places())}
                if one is two or self.whole_since or near or len(meet) != 1:
                    continue
                if one.outcome == two.outcome == "aborted" and abs(one.sent - two.sent) < PROMPT:
                    return self.broken(
                        "wrong_result",
                        f"{one.label} and {two.label} want the same key of one participant, and both were aborted. "
                        "Vote yes on the one that the participant is asked about first. Vote no only if another transaction is "
                        "prepared there and holds one of the keys.", *one.told[:1], *two.told[:1],
                        expected="one is committed", got="both are aborted", why=False,
                    )  # fmt: skip
        return None

    # ---- values

    def readable(self) -> Diagnosis | None:
        """Every read of a node that is up is answered within 2 s, by a value that was written there, or null."""
        for read in self.reads:
            late = read.answer is None or (read.answer.arrived or 0.0) - read.sent > PROMPT
            if late and self.up(read.node, read.sent, read.sent + PROMPT):
                what = "Answer with the last committed value, also while a transaction on this key is undecided."
                strays = self.strays(read.asked)
                if strays:
                    what = f"It sent {read.asked.client} {strays[0].type} without in_reply_to. Answer with reply(request, body)."
                return self.broken(
                    "not_available",
                    f"{read.node} did not answer a read of {read.key!r}, sent at {read.sent:.2f} s, within {PROMPT:g} s. {what}",
                    *strays[:1], expected="an answer within 2 s", got="none",
                )  # fmt: skip
            if read.answer is None:
                continue
            body = read.answer.body
            if read.answer.type != "read_ok" or "value" not in body:
                return self.broken(
                    "wrong_result",
                    f"{read.node} answered a read of {read.key!r} with {json.dumps(body)[:200]}. Answer read_ok with a value.",
                    read.answer, expected='{"type": "read_ok", "value": ...}', got=json.dumps(body)[:200], why=False,
                )  # fmt: skip
            if read.value is not None and self.of(read.node, read.key, read.value) is None:
                return self.broken(
                    "wrong_result",
                    f"{read.node} answered a read of {read.key!r} with {json.dumps(read.value)[:100]}, which no transaction "
                    "writes there. Answer with the last committed value, or null.", read.answer, why=False,
                )  # fmt: skip
        return None

    def never_aborted(self) -> Diagnosis | None:
        """What was aborted is never read, and no value comes back after another."""
        shown: dict[tuple[str, str], list[Read]] = {}
        for read in self.reads:
            if read.answer is None or (txn := self.of(read.node, read.key, read.value)) is None:
                continue
            if any(sent.type == "aborted" for sent in txn.told):
                return self.broken(
                    "not_atomic",
                    f"{txn.label} was aborted, but {read.node} answered a read of {read.key!r}, sent at {read.sent:.2f} s, "
                    f"with {json.dumps(read.value)}, which {txn.label} writes. Apply a transaction only once it is committed.", read.answer, *txn.told[:1],
                    expected="the value before", got=json.dumps(read.value),
                )  # fmt: skip
            before = shown.setdefault((read.node, read.key), [])
            if before and not same(before[-1].value, read.value) and any(same(b.value, read.value) for b in before):
                return self.broken(
                    "not_atomic",
                    f"{read.node} returned {json.dumps(read.value)} for {read.key!r}, then {json.dumps(before[-1].value)}, and "
                    f"at {read.sent:.2f} s {json.dumps(read.value)} again. Apply {txn.label} once only, and let no older "
                    "value replace a newer one.", read.answer,
                )  # fmt: skip
            before.append(read)
        return None

    def all_or_none(self) -> Diagnosis | None:
        """Once nothing fails any more, who was committed is everywhere, and who is somewhere is everywhere."""
        settled = [read for read in self.reads if read.answer is not None and self._is_settled(read)]
        for read in settled:
            writer = self.of(read.node, read.key, read.value)
            for txn in self.txns:
                evidence = self._committed(txn)
                if evidence and txn.sent < read.sent and (read.node, read.key) in set(txn.places()):
                    if writer is txn or (writer is not None and not _before(writer, txn)):
                        continue
                    return self._missing(txn, read, evidence)
        return self._mixed(settled)

    def _missing(self, txn: Txn, read: Read, evidence: tuple[str, Sent]) -> Diagnosis:
        how, sent = evidence
        crashed = any(e.what == "crash" and e.at < read.sent for e in self.story.events)
        heard = [one.src for one in self.between(txn.sent, sent.sent)]
        silent = read.node not in (*heard, COORDINATOR)
        kind: Kind = "not_durable" if crashed and how.startswith("the client") and not silent else "not_atomic"
        text = (
            f"{how}, but {read.node}, asked at {read.sent:.2f} s, returned {json.dumps(read.value)} for {read.key!r} and not "
            f"{json.dumps(txn.writes[read.node][read.key])}, which {txn.label} writes."
        )
        if silent:
            text += (
                f" {read.node} had sent no message since {txn.label} had begun at {txn.sent:.2f} s, so it had not voted. "
                "Commit only when every participant has voted yes."
            )
        else:
            text += self._off_disk(read, json.dumps(txn.writes[read.node][read.key]))
            text += (
                f" {self._refused(read.node, txn) or 'Every participant must apply what is committed, and keep it.'}"
            )
        return self.broken(
            kind, text, read.answer, sent, expected=json.dumps(txn.writes[read.node][read.key]),
            got=json.dumps(read.value), why=not silent,
        )  # fmt: skip

    def _off_disk(self, read: Read, value: str) -> str:
        """Which write took the last copy of a text off the node's disk; "" where none did, or where that is not known."""
        had: set[str] = set()
        gone: Happened | None = None
        for event in self.story.events:
            if event.what != "write" or event.node != read.node or event.at > read.sent or value[0] != '"':
                continue
            key, _, held = event.text.removesuffix(" deleted").partition(" = ")
            if len(held) >= 200:  # cut short
                return ""
            before = bool(had)
            had = had | {key} if value in held.replace("\\", "") else had - {key}
            gone = None if had else event if before else gone
        if gone is None:
            return ""
        return f" {read.node} had {value} on its disk until {gone.at:.2f} s, when a write{place(gone.line)} removed the last copy."

    def _is_settled(self, read: Read) -> bool:
        until = (read.answer.arrived if read.answer is not None else None) or read.sent
        return read.sent >= self.quiet and not any(read.sent - DECIDED < txn.sent <= until for txn in self.txns)

    def _committed(self, txn: Txn) -> tuple[str, Sent] | None:
        """How it is known that a transaction is committed, and by which message."""
        for sent in txn.told:
            if sent.type == "committed":
                return f"the client was told at {sent.arrived:.2f} s that {txn.label} is committed", sent
        for read in self.reads:
            if read.answer is not None and self.of(read.node, read.key, read.value) is txn:
                how = f"{read.node} returned at {read.sent:.2f} s what {txn.label} writes there, so it is committed"
                return how, read.answer
        return None

    def _mixed(self, settled: list[Read]) -> Diagnosis | None:
        for read in settled:
            for other in settled:
                one, two = self.of(read.node, read.key, read.value), self.of(other.node, other.key, other.value)
                if one is None or two is None or one is two or abs(read.sent - other.sent) > DECIDED:
                    continue
                both = {(read.node, read.key), (other.node, other.key)}
                if both <= set(one.places()) and both <= set(two.places()):
                    return self.broken(
                        "not_atomic",
                        f"{one.label} and {two.label} write the same keys, but in the end {read.node} has {read.key!r} of "
                        f"{one.label} and {other.node} has {other.key!r} of {two.label}. All participants must apply them in "
                        "the same order. Keep a key locked from the yes vote until the outcome is applied.", read.answer, other.answer,
                    )  # fmt: skip
        return None


def _not_in(one: Txn, others: list[Txn], txn: Txn) -> set[tuple[str, str]]:
    """The places of `txn` that none of the others wrote after `one`."""
    return set(txn.places()).difference(*(other.places() for other in others if other.sent > one.sent))


def _before(one: Txn, other: Txn) -> bool:
    """Whether one was over, for all to know, when the other began."""
    return one.answered is not None and one.answered < other.sent
