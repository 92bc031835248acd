"""What is wrong with a run of log nodes: by what clients saw, in words, with what the messages show of why."""

from __future__ import annotations

import json
from collections.abc import Iterable

from grader.exercises.common.scenes import carries
from grader.exercises.replicated_log.scene import Logs, told
from grader.nodes.clients import Asked
from grader.nodes.histories.log_requests import Malformed, operation
from grader.nodes.histories.log_words import COMES_AGAIN, KEPT_BY_MOST, ONE_CHOOSES, sentence
from grader.nodes.histories.logs import NEVER, Finding, Operation, Poll, Send, What, findings
from grader.nodes.runs import answer_text, place
from grader.says import at, counted, cut, listed, some
from grader.trace.story import Sent
from grader.verdict import Diagnosis, Kind

KINDS: dict[What, Kind] = {
    "shared": "wrong_result", "order": "wrong_result", "unordered": "wrong_result", "unasked": "wrong_result",
    "back": "not_linearizable", "uncommitted": "not_linearizable", "commit-refused": "not_linearizable",
}  # fmt: skip
TITLES: dict[What, str] = {
    "changed": "A message that changed", "shared": "One offset, two messages", "order": "An offset that is not greater",
    "unordered": "Offsets that do not grow", "unasked": "Not what was asked for", "skipped": "A poll that skips a message",
    "twice": "One message at two offsets", "refused": "A refused message that is there", "unsent": "A message nobody sent",
    "lost": "An acknowledged message is gone", "vanished": "A message that was polled is gone",
    "back": "A committed offset that went back", "uncommitted": "An offset that nobody committed",
    "commit-refused": "A refused commit that happened",
}  # fmt: skip

MOST_CRASHES = 2  # that are told


def unsafe(scene: Logs, why: str = "") -> Diagnosis | None:
    """What clients saw that they must not: an answer of the wrong shape, or the first thing that is wrong with the logs."""
    operations: list[Operation] = []
    final: dict[str, list[Poll]] = {}
    last = {id(one): node for node, polls in scene.final.items() for one in polls}
    for one in scene.asked:
        found = proper(scene, one)
        if found is not None:
            return found
        seen = operation(one.ask.body, one.answer, one.sent, one.answered, one)
        assert not isinstance(seen, Malformed)
        if seen is None:
            continue
        if isinstance(seen, Poll) and id(one) in last:
            final.setdefault(last[id(one)], []).append(seen)
        else:
            operations.append(seen)
    wrong = findings(operations, final)
    return _told(scene, wrong[0], final, why) if wrong else None


def proper(scene: Logs, one: Asked) -> Diagnosis | None:
    """Every answer is the one that belongs to the request, or an error with a code."""
    if one.answer is None:
        return None
    kind, wanted, got = one.ask.body["type"], "", answer_text(one)
    if one.answer.get("type") == "error":
        code = one.answer.get("code")
        if isinstance(code, bool) or not isinstance(code, int):
            wanted = "an error with an integer as its code"
        elif code not in (0, 11, 13):
            wanted = "an answer with ok; without a majority error 0, 11 or 13, or silence"
    elif one.answer.get("type") != f"{kind}_ok":
        wanted = f"{kind}_ok"
    else:
        seen = operation(one.ask.body, one.answer, one.sent, one.answered)
        if isinstance(seen, Malformed):
            got, wanted = seen.text, seen.wanted
    if not wanted:
        return None
    _mark(scene, "A wrong answer", [one])
    verb = f"is {got}" if not got.startswith("has ") else got
    return scene.bench.found(
        "wrong_result",
        f"The answer to the {told(one)}, sent at {at(one.sent)}, {verb}. It must be {wanted}.",
        one.reply.line if one.reply else None, wanted, cut(got, 100),
    )  # fmt: skip


def _mark(scene: Logs, title: str, shown: Iterable[Asked]) -> None:
    story = scene.sim.story
    story.title, story.subtitle = title, scene.played.plan.label
    for one in shown:
        story.marked |= {message.number for message in (one.request, one.reply) if message is not None}


def _told(scene: Logs, found: Finding, final: dict[str, list[Poll]], why: str) -> Diagnosis:
    shown = list(dict.fromkeys(id(one.tag) for one in found.evidence))
    asked = {id(one.tag): one.tag for one in found.evidence}
    requests: list[Asked] = [asked[each] for each in shown]
    _mark(scene, TITLES[found.what], requests)
    kind = KINDS.get(found.what, "lost_or_duplicated")
    text = sentence(found, _who)
    if found.what == "lost":
        holders = [
            node for node, polls in final.items()
            if any(offset == found.offset for poll in polls for offset, _ in poll.got.get(found.key, ()))
        ]  # fmt: skip
        if holders:
            kind = "not_converged"
            node = requests[-1].ask.node
            text += f" In the end {listed(holders)} returned it and {node} did not, 5 s after all was whole."
        elif len(kept := _kept(scene, found.message)) * 2 > len(scene.names):
            text = f"{text.removesuffix(KEPT_BY_MOST)} In the end no node returned it, although {listed(kept)} had it on disk."
            text += " Whichever node leads then must find out what is acknowledged, also if nobody sends anything new."
        else:
            text += " In the end no node returned it."
    elsewhere = _elsewhere(scene, found)
    if elsewhere:
        text = text.removesuffix(COMES_AGAIN) + elsewhere
    spread = _spread(scene, found)
    if spread and found.what == "shared":  # a node that chooses alone may do this, too
        text = text.removesuffix(ONE_CHOOSES)
        spread += "" if "majority" in why else " Acknowledge a message only when a majority of all nodes has it."
    text += spread + _skipped_at(scene, found)
    if why:
        text += _written_half(scene, requests[-1]) or _crashed(scene, found)
        text += f" The rule that this run tests: {why}"
    line = requests[-1].reply.line if requests[-1].reply else None
    return scene.bench.found(kind, text, line)


def _elsewhere(scene: Logs, found: Finding) -> str:
    """In words, if the second offset of a message is that of an equal message of another key."""
    for one in scene.asked if found.what == "twice" else ():
        body, offset = one.ask.body, (one.answer or {}).get("offset")
        equal = body["type"] == "send" and json.dumps(body["msg"]) == json.dumps(found.message)
        if equal and body["key"] != found.key and offset == found.offset:
            key, other = json.dumps(found.key), json.dumps(body["key"])
            return (
                f" An equal message that was sent to key {other} has offset {offset}. {other} and {key} are two keys."
            )
    return ""


def _kept(scene: Logs, message: object) -> list[str]:
    """The nodes on whose disks this message is in the end."""
    text = json.dumps(message) if isinstance(message, str) and len(message) >= 4 else "\n"  # which no JSON holds
    return [name for name in scene.names if any(text in each for each in scene.sim.places[name].disk.values())]


def _who(one: Operation) -> str:
    asked: Asked = one.tag
    if one.end == NEVER:
        how = (
            f"sent at {at(asked.sent)}, answered with {answer_text(asked)}"
            if asked.answer
            else f"sent at {at(asked.sent)}"
        )
    else:
        how = f"answered at {at(one.end)}"
    return f"the {told(asked)} ({how})"


def _spread(scene: Logs, found: Finding) -> str:
    """How few nodes had a message when it was acknowledged or polled for the first time, where they were no majority."""
    first = found.evidence[0]
    message = found.message
    if not isinstance(message, str) or len(message) < 4 or found.what in ("order", "unordered", "unasked"):
        return ""
    if not isinstance(first, (Send, Poll)) or first.end == NEVER or found.what in ("twice", "refused", "unsent"):
        return ""
    asked: Asked = first.tag
    if asked.reply is None:
        return ""
    then, node = asked.reply.sent, asked.reply.src
    had = {node} | {
        sent.dst for sent in scene.sim.story.sent
        if sent.dst in scene.names and sent.fate == "delivered" and sent.arrived is not None and sent.arrived <= then
        and carries(sent, message)
    }  # fmt: skip
    if 2 * len(had) > len(scene.names):
        return ""
    did = "acknowledged" if isinstance(first, Send) else "returned"
    return (
        f" When {node} {did} {cut(json.dumps(message, ensure_ascii=False), 60)}, only {counted(len(had), 'node')} of {len(scene.names)} had ever got it: "
        f"{listed(sorted(had))}. That is no majority."
    )


def _crashed(scene: Logs, found: Finding) -> str:
    """Which nodes crashed between the answers to two sends that were given one offset."""
    first, second = (one.tag.reply for one in (found.evidence[0], found.evidence[-1]))
    if found.what != "shared" or first is None or second is None:
        return ""
    events = [e for e in scene.sim.story.events if e.what == "crash" and first.sent <= e.at <= second.sent]
    crashes = [f"{e.node} at {at(e.at)}" for e in events]
    return f" After the first answer had left {first.src}, nodes crashed: {some(crashes, 3)}." if crashes else ""


def _written_half(scene: Logs, last: Asked) -> str:
    """Which nodes crashed, before this was answered, in a step in which they had written something."""
    events, told = scene.sim.story.events, []
    for number, crash in enumerate(events):
        if crash.what != "crash" or crash.at > (last.answered or NEVER):
            continue
        step = [other for other in events[:number] if (other.node, other.at) == (crash.node, crash.at)]
        wrote = [f'"{cut(w.text.partition(" = ")[0], 40)}"{place(w.line)}' for w in step if w.what == "write"]
        if wrote:
            what = listed(wrote[-2:])
            told.append(f"{crash.node} crashed at {at(crash.at)}, in a step in which it had written {what}")
    return f" {'. '.join(told[:MOST_CRASHES])}." if told else ""


def _skipped_at(scene: Logs, found: Finding) -> str:
    """Whether what a poll left out had ever got to its node."""
    if found.what != "skipped" or not isinstance(found.message, str):
        return ""
    asked: Asked = found.evidence[-1].tag
    node, reply = asked.ask.node, asked.reply
    if reply is None:
        return ""

    def got(sent: Sent) -> bool:
        arrived = sent.fate == "delivered" and sent.arrived is not None and sent.arrived <= reply.sent
        return sent.dst == node and arrived and carries(sent, found.message)

    if any(got(sent) for sent in scene.sim.story.sent):
        return ""
    return f" No message that held {json.dumps(found.message)} had reached {node} before it answered the poll."
