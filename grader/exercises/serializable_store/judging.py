"""What transactions promise, held against what clients were told. Nothing is asked of the messages between nodes."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from grader import tally
from grader.exercises.serializable_store import answered, plans, serial
from grader.exercises.serializable_store.history import History, befell
from grader.nodes.clients import Asked
from grader.nodes.runs import answer_text, same
from grader.says import listed
from grader.trace.story import Sent
from grader.verdict import Diagnosis

PROMPT = 2.0  # seconds
PATIENCE = 5.0  # seconds
DELAYS = 6  # of one way, from a read's request to its answer


class Judging(History):
    """Of one run. Every method that is no helper returns what is wrong, or None."""

    # ---- answers

    def shape(self) -> Diagnosis | None:
        """Every answer is txn_ok or error, with the operations of its request; nobody is told two different things."""
        for asked in self.asked:
            if asked.answer is None or asked.reply is None:
                continue
            wrong = answered.shape(asked.ask.body, asked.answer)
            if wrong:
                text = f"The answer of {asked.ask.node} to {self._request(asked)} {wrong}."
                return self.broken("wrong_result", text, asked, got=answer_text(asked, 200), why=False)
            number = asked.reply.body.get("in_reply_to")
            for other in self.replies(asked.client, partial(_answers, number)):
                bodies = (other.body, asked.answer)
                if {
                    answered.ended(asked.ask.body, body)[0]
                    for body in bodies
                    if not answered.shape(asked.ask.body, body)
                } == {"ok", "fail"}:
                    text = (
                        f"{asked.ask.node} answered {self._request(asked)} twice: with {asked.answer.get('type')}, and with "
                        f"{other.type} at {other.arrived:.3f} s. A transaction has one outcome. Keep to the first one."
                    )
                    return self.broken("not_atomic", text, asked, other)
        return None

    def _request(self, asked: Asked) -> str:
        ops = tuple((f, key, value) for f, key, value in asked.ask.body["txn"])
        return f"the txn of {asked.client} at {asked.sent:.3f} s ({answered.told(ops)})"

    def prompt(self) -> Diagnosis | None:
        """Every transaction gets txn_ok within 2 s."""
        return self._all_ok(
            self.asked, "There was no fault, and no other transaction on these keys was open that appends."
        )

    def settled(self) -> Diagnosis | None:
        """So do those of zoe, 5 s after the last fault."""
        asked = [one for one in self.asked if one.client == plans.LAST]
        why = f"All nodes were up and all links worked since {self.whole_since:.2f} s, and no client waited for another answer."
        return self._all_ok(asked, why)

    def served(self) -> Diagnosis | None:
        """So do those of carol, all of whose owners were up and connected to the asked node."""
        asked = [one for one in self.asked if one.client == "carol"]
        for one in asked:
            owners = sorted({plans.owner(key, self.names) for _, key, _ in one.ask.body["txn"]} - {one.ask.node})
            who = f"{one.ask.node} and the owners of its keys ({', '.join(owners) or one.ask.node})"
            why = f"{who} had been up and connected for 2 s, and no client was still waiting for another answer. This transaction must not depend on any other node."
            if wrong := self._all_ok([one], why + self._still_open(one, {one.ask.node, *owners})):
                return wrong
        return self.settled()

    def _still_open(self, one: Asked, here: set[str]) -> str:
        """An earlier transaction at one of these nodes that was not answered, shares a key and needs another node."""
        keys = {key for _, key, _ in one.ask.body["txn"]}
        for other in self.asked:
            theirs = {key for _, key, _ in other.ask.body["txn"]}
            needs = sorted({plans.owner(key, self.names) for key in theirs} - here)
            unanswered = other.sent < one.sent and (other.answered is None or other.answered > one.sent)
            if unanswered and other.ask.node in here and keys & theirs and needs:
                shared = listed(sorted(map(str, keys & theirs)))
                return (
                    f" {self.label(other)} had not been answered by then. Both use key {shared}, and the earlier one also "
                    f"needs {listed(needs)}. A transaction that cannot reach an owner must not keep other keys locked: abort it."
                )
        return ""

    def _all_ok(self, asked: list[Asked], why: str) -> Diagnosis | None:
        for one in asked:
            if one.sent + PROMPT > self.plan.until:
                continue
            ok = (one.answer or {}).get("type") == "txn_ok"
            if ok and one.seconds is not None and one.seconds <= PROMPT:
                continue
            if one.answer is None:
                said = "was not answered"
            elif ok:
                said = f"was answered after {one.seconds:.2f} s"
            else:
                said = f"was answered with {answer_text(one)} after {one.seconds:.2f} s"
            text = f"{self.label(one)} {said}. {why} It must get txn_ok within {PROMPT:g} s. {self._unlocked(one)}"
            return self.broken("not_available", text, one, expected="txn_ok within 2 s", got=said.removeprefix("was "))
        return None

    def _unlocked(self, one: Asked) -> str:
        """What to do about the key that this request may have waited for, by what had happened before it."""
        before = befell(self.story).sentences
        if len(before) == 1 and before[0].endswith("lost"):
            return (
                "Messages were lost, and nothing else failed. A lost message must not leave a key locked, not even a key that "
                "was only read. Ask again until the outcome is known."
            )
        late = one.sent > self.whole_since + PROMPT
        if before and late and not self.between(self.whole_since - 1e-9, one.sent):
            return (
                f"From {self.whole_since:.2f} s to {one.sent:.3f} s no node sent another node a message. A node that "
                "still keeps a key locked must ask again and again how that transaction ended, and then free the key."
            )
        return (
            "If a key is still locked, wait for it or try again. Do not leave a key locked for longer than its "
            "transaction needs."
        )

    def rounds(self) -> Diagnosis | None:
        """Reads that nothing stands in the way of take six delays."""
        for asked in self.asked:
            ops = asked.ask.body["txn"]
            if asked.client == plans.LAST or any(f == "append" for f, _, _ in ops):
                continue
            if wrong := self._all_ok([asked], "No transaction that appends was open."):
                return wrong
            assert asked.seconds is not None
            delays = asked.seconds / plans.HOP
            tally.note("delays of a read-only transaction", delays, DELAYS, "one-way delays", where=self.plan.label)
            if delays > DELAYS + 1e-6:
                text = (
                    f"{self.label(asked)} took {delays:.3g} one-way delays of 10 ms from request to answer, and {DELAYS} are allowed: one "
                    "from the client, two round trips between nodes, and one back. "
                )
                met = next((other for other in self.asked if other is not asked and _met(other, asked)), None)
                text += (
                    f"{self.label(met)} was under way at the same time and also only reads. Two transactions that only read must "
                    "not wait for each other, and neither may make the other start over."
                    if met
                    else "Ask all owners at the same time, and let a transaction that only reads answer as soon as its reads are "
                    "known to be of one moment."
                )
                return self.broken("too_many_rounds", text, met, asked, expected="<= 6", got=f"{delays:.3g}", why=False)
        return None

    # ---- contention

    def progress(self) -> Diagnosis | None:
        """While all six clients ask, one transaction commits in every 2 s, and every request is answered within 5 s."""
        crowd = [one for one in self.asked if one.client in plans.CROWD]
        for one in crowd:
            if one.answer is None:
                text = (
                    f"{self.label(one)} was not answered within {PATIENCE:g} s, while six clients used three keys. There was no fault. "
                    "Transactions that wait for each other in a circle wait forever: let an order of age or of keys, or a "
                    "time-out, end such a circle, and answer error 30 if need be."
                )
                return self.broken("not_available", text, one, expected="an answer within 5 s", got="none", why=False)
        there = {one.client for one in crowd}  # of a run that was made smaller, not all
        until = min(
            (max(one.answered or 0.0 for one in crowd if one.client == client) for client in there), default=0.0
        )
        done = [one.answered for one in crowd if one.answer and one.answer.get("type") == "txn_ok" and one.answered]
        times = [self.plan.begin + 1.0, *sorted(time for time in done if time < until), until]
        for since, then in pairwise(times):
            if then - since > plans.SPAN:
                text = (
                    f"No transaction was answered txn_ok from {since:.2f} s to {then:.2f} s, while six clients used three keys. There was "
                    "no fault. In every 2 s one of them must commit: decide which of two goes first (the older one, for "
                    "instance), so that they do not hinder each other forever."
                )
                return self.broken(
                    "not_available",
                    text,
                    expected="a commit in every 2 s",
                    got=f"none for {then - since:.1f} s",
                    why=False,
                )
        return None

    # ---- what clients saw

    def sound(self) -> Diagnosis | None:
        """Single reads, the order of each key, all or nothing in the end, and one order of all transactions."""
        txns = self.txns
        crashed = any(event.what == "crash" for event in self.story.events)
        found = serial.values(txns) or serial.orders(txns) or serial.last(txns, crashed) or serial.cycle(txns)
        return self.problem(found)

    def in_sequence(self) -> Diagnosis | None:
        """One client, one after another: each read shows exactly what was appended before."""
        lists: dict[object, list[int]] = {}
        for asked in self.asked:
            if asked.client == plans.LAST:
                break
            for (f, key, value), given in zip(asked.ask.body["txn"], (asked.answer or {})["txn"], strict=True):
                if f == "append":
                    lists.setdefault(key, []).append(value)
                elif not same(given[2] or [], lists.get(key, [])):
                    text = (
                        f"{self.label(asked)} read {given[2]} of key {key}. Transactions came one after another, and the values "
                        f"appended to it were {lists.get(key, [])}. A read shows all earlier appends, in order, also those of its own "
                        "transaction before it."
                    )
                    return self.broken(
                        "wrong_result", text, asked, expected=f"{lists.get(key, [])}", got=f"{given[2]}", why=False
                    )
        return None


def _met(other: Asked, asked: Asked) -> bool:
    """Whether a request that only reads was open at the same time as this one, and shares a key with it."""
    ops, keys = other.ask.body["txn"], {key for _, key, _ in asked.ask.body["txn"]}
    together = other.sent < (asked.answered or 0.0) and (other.answered is None or other.answered > asked.sent)
    return together and all(f == "r" for f, _, _ in ops) and any(key in keys for _, key, _ in ops)


def _answers(number: object, sent: Sent) -> bool:
    """Whether a message answers a client's request of this number."""
    return bool(sent.body.get("in_reply_to") == number)
