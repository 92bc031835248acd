"""What a run of Raft nodes shows from outside: who led which term, and what clients were told. Sentences for what is
wrong with it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from grader.exercises.raft.causes import answerer, cut_off, deposed, few, kept
from grader.exercises.raft.scene import Scene
from grader.nodes.bench import NodeBench
from grader.nodes.clients import Asked
from grader.nodes.histories.checker import linearizable
from grader.nodes.histories.history import pair
from grader.nodes.registers import NOTHING, Operation, operation
from grader.nodes.runs import place
from grader.nodes.sim import Simulation
from grader.says import cut
from grader.trace.story import Sent, Story
from grader.verdict import Diagnosis


def two_leaders(scene: Scene) -> Diagnosis | None:
    """Two leaders of one term."""
    for term, led in sorted(scene.leaders().items()):
        if len(led) < 2:
            continue
        (first, since), (second, then) = sorted(led.items(), key=lambda item: item[1])[:2]
        had = f"Term {term} had two leaders: {first} from {since:.3f} s on and {second} from {then:.3f} s on."
        return led_twice(scene.bench, scene.sim.story, had, term, first, second)
    return None


def led_twice(bench: NodeBench, story: Story, had: str, term: int, first: str, second: str) -> Diagnosis:
    """Two leaders of one term, and how that came about; `had` says who they were. Marks it in the story."""
    voters = _answered_both(story.sent, term, first, second)
    told, line = "", None
    if voters:
        voter, messages = voters[0]
        story.marked.update(message.number for message in messages)
        line = messages[-1].line
        times = " and ".join(_when(story, message.sent) for message in (messages[0], messages[-1]))
        told = f" {voter} answered the request_vote of both candidates, at {times}{bench.source.quote(line)}."
    else:
        story.marked.update(
            message.number for message in story.sent
            if message.type == "append_entries" and message.body.get("term") == term and message.src in (first, second)
        )  # fmt: skip
        told, line = _between_candidates(bench, story, term, first, second)
    refused = "" if voters or told else _won_by_refusals(story, term, first, second)
    crashed = [
        event for event in story.events
        if event.what == "crash" and voters and event.node == voters[0][0]
        and voters[0][1][0].sent <= event.at < voters[0][1][-1].sent
    ]  # fmt: skip
    because = (
        refused or "A node has one vote per term, and an answer counts only in the term in which it was asked for."
    )
    if crashed:
        crash, disk = crashed[0], ""
        for event in story.events[: story.events.index(crash)]:
            if event.what == "write" and event.node == crash.node:
                disk = f" Its last write to disk before that was {cut(event.text, 80)}{place(event.line)}."
        because = (
            f"{crash.node} crashed at {_when(story, crash.at)}, between the two answers.{disk} A node has one vote per term. Before "
            "it answers, its disk must hold the term and the candidate that got its vote."
        )
    got = f"{first} and {second} in term {term}"
    return bench.found("wrong_result", f"{had}{told} {because}", line, "at most one leader a term", got)


def _when(story: Story, time: float) -> str:
    return f"step {time:g}" if story.unit == "step" else f"{time:.3f} s"


def _answered_both(sent: Sequence[Sent], term: int, first: str, second: str) -> list[tuple[str, list[Sent]]]:
    """Nodes that answered both candidates of a term, with the last answer to each; not those that refused one of them."""
    last: dict[str, dict[str, Sent]] = {}
    for message in sent:
        is_answer = message.type == "request_vote_res" and message.body.get("term") == term
        if is_answer and message.dst in (first, second) and not _refuses(message):
            last.setdefault(message.src, {})[message.dst] = message
    both = [(voter, [got[first], got[second]]) for voter, got in sorted(last.items()) if len(got) == 2]
    return [(voter, sorted(answers, key=lambda message: message.sent)) for voter, answers in both]


def _between_candidates(bench: NodeBench, story: Story, term: int, first: str, second: str) -> tuple[str, int | None]:
    """Of two candidates of a term, one that answered the other: in words, and the line."""
    for message in story.sent:
        if message.type != "request_vote_res" or message.body.get("term") != term:
            continue
        if {message.src, message.dst} == {first, second} and not _refuses(message):
            text = (
                f" {message.src}, itself a candidate of this term, answered the request_vote of {message.dst} at "
                f"{_when(story, message.sent)}{bench.source.quote(message.line)}. A candidate has voted for itself, so its "
                "answer must be no."
            )
            stood = [
                one.sent for one in story.sent
                if one.type == "request_vote" and one.src == message.src and one.body.get("term") == term
            ]  # fmt: skip
            crashes = [event.at for event in story.events if event.what == "crash" and event.node == message.src]
            for at in crashes:
                if stood and stood[0] <= at <= message.sent:
                    text += (
                        f" It had crashed at {_when(story, at)}: write term and vote to disk before you ask for votes."
                    )
                    break
            return text, message.line
    return "", None


def _refuses(answer: Sent) -> bool:
    """Whether an answer to request_vote plainly says no: by false in some field, and true in none."""
    said = {value for value in answer.body.values() if isinstance(value, bool)}
    return said == {False}


def _won_by_refusals(story: Story, term: int, first: str, second: str) -> str:
    """In words, if one of two leaders of a term was refused by so many that the others are no majority."""
    size = sum(lane[0] == "n" for lane in story.lanes)
    for name in (second, first):
        answers = [
            sent for sent in story.sent
            if sent.type == "request_vote_res" and sent.body.get("term") == term and sent.dst == name
            and sent.fate == "delivered"
        ]  # fmt: skip
        refusals = [sent for sent in answers if _refuses(sent)]
        granted = {sent.src for sent in answers if not _refuses(sent)} - {name}
        if refusals and 2 * (1 + len(granted)) <= size:
            body = {field: value for field, value in refusals[0].body.items() if field not in ("type", "term")}
            return (
                f"{refusals[0].src} had answered {name} with {json.dumps(body)[:80]}. Count only answers that grant the vote, "
                "and wait for a majority of them."
            )
    return ""


# ---- what clients were told


def wrong_history(
    bench: NodeBench, sim: Simulation, done: Sequence[Asked], why: str = "", lost: bool = False
) -> Diagnosis | None:
    """Confirmed writes that are gone, reads of what was overwritten, and anything else that no order explains."""
    for key in dict.fromkeys(json.dumps(asked.ask.body["key"]) for asked in done):
        found = _gone_or_stale(bench, sim, [one for one in map(operation, done) if one and one.key == key], why, lost)
        if found is not None:
            return found
    checked = linearizable(pair(sim.story.history), "cas-register") if done else None
    if checked is None or checked.valid is not False:
        return None  # what the search gave up on is no proof of anything
    why = _refused(done) or why
    begun = [asked for asked in done if asked.ask.body["key"] == checked.key and asked.answered is not None]
    if begun:
        _mark(sim, max(begun, key=lambda asked: asked.answered or 0.0))
    return bench.found(
        "not_linearizable",
        f"No order of the operations explains what clients were told. {checked.reason} {why}".strip(),
        None, "one order in which each operation takes effect between its request and its answer", "none",
    )  # fmt: skip


def _refused(done: Sequence[Asked]) -> str:
    """In words, if a read returned what only a request had written that was answered with a definite error."""
    found = [one for one in map(operation, done) if one is not None]
    for read in (one for one in found if one.what == "read"):
        wrote = [one for one in found if one.what == "write" and (one.key, one.value) == (read.key, read.value)]
        if wrote and all(one.done is False for one in wrote):
            asked = wrote[-1].asked
            code = (asked.answer or {}).get("code")
            return (
                f"{answerer(wrote[-1])} answered that {asked.ask.body['type']} with error {code} at {asked.answered:.3f} s, "
                f"and error {code} promises that it never takes effect. What is in a log may still be committed: answer error "
                "0 or 13, or nothing, until you know."
            )
    return ""


def _gone_or_stale(
    bench: NodeBench, sim: Simulation, here: Sequence[Operation], why: str, lost: bool
) -> Diagnosis | None:
    """The common violations of one key, in words. Values are written once each."""
    writes = [one for one in here if one.what == "write" and one.done is not False]
    reads = sorted((one for one in here if one.what == "read"), key=lambda one: one.start)
    by_value = {write.value: write for write in writes}
    last = max((read.start for read in reads), default=0.0)
    for read in reads:
        source = by_value.get(read.value)
        if read.value != NOTHING and source is None:
            continue  # the search judges it: nobody wrote that
        before = [
            write for write in writes
            if write.end <= read.start and write is not source and (source is None or source.end <= write.start)
        ]  # fmt: skip
        if not before:
            continue
        newest = max(before, key=lambda one: one.end)
        again = [r for r in reads if r.start >= read.start and _not_older(by_value.get(r.value), newest)]
        gone = lost or (not again and read.start == last)
        _mark(sim, newest.asked, read.asked)
        stale = "returned an overwritten value" if source else "missed a confirmed write"
        what = "A confirmed write is gone" if gone else f"A read {stale}"
        at_once = _at_once(sim, read.asked)
        if not source and not again and (on_disk := kept(sim, newest, read)):
            what, why = "A read missed a confirmed write", on_disk
        if gone and at_once:  # then nobody can tell whether it is gone
            what = "A confirmed write is gone, or a read missed it"
        if again and lost:  # it came back, or was there all the time
            what = "A confirmed write is gone, or a read missed it"
            why = (
                f"A later read, which {answerer(again[0])} answered at {again[0].end:.3f} s, found {cut(again[0].value, 40)}"
                f"{'' if again[0].value == newest.value else ', which may be newer'}. "
                "Check that a new leader commits an entry of its own term before it answers a read, and that no node "
                f"removes a confirmed entry. {why}"
            )
            if again[0].value == newest.value and _had_it(sim, read, again[0]):
                what, node = "A read missed a confirmed write", answerer(read)
                why = (
                    f"A later read, which {node} answered at {again[0].end:.3f} s, found {cut(newest.value, 40)}. No message "
                    f"that reached {node} in between held it, so {node} had it all the time. A new leader must commit an "
                    "entry of its own term, and apply all that is committed, before it answers a read (section 8)."
                )
        body, wrote, found = newest.asked.ask.body, cut(newest.value, 40), cut(read.value, 40)
        return bench.found(
            "not_durable" if gone else "not_linearizable",
            f"{what}. {answerer(newest)} confirmed the {body['type']} of {wrote} to {body['key']} at {newest.end:.3f} s. "
            f"The read that was sent at {read.start:.3f} s and that {answerer(read)} answered at {read.end:.3f} s found "
            f"{'nothing' if read.value == NOTHING else found}. {at_once or cut_off(sim, newest) or deposed(sim, newest) or few(sim, newest) + why}".strip(),
            read.asked.reply.line if read.asked.reply else None, wrote, found,
        )  # fmt: skip
    return None


def _had_it(sim: Simulation, read: Operation, later: Operation) -> bool:
    """Whether the node that answered both reads had what the later one found at the first, too: no message brought it."""
    first, last, value = read.asked.reply, later.asked.reply, later.value.strip('"')
    return first is not None and last is not None and first.src == last.src and not any(
        sent.dst == first.src and sent.holds(value) and sent.arrived is not None and first.sent <= sent.arrived <= last.sent
        for sent in sim.story.sent
    )  # fmt: skip


SOON = 0.2  # seconds after a restart in which a lease that was acknowledged before may last


def _at_once(sim: Simulation, read: Asked) -> str:
    """In words, if a read was answered in the very moment in which it arrived: then no other node was asked."""
    answer = read.reply
    if answer is None or not any(
        sent.src == read.client and sent.dst == answer.src and sent.arrived == answer.sent
        and sent.body.get("msg_id") == answer.body.get("in_reply_to")
        for sent in sim.story.sent
    ):  # fmt: skip
        return ""
    text = (
        f"{answer.src} answered at once, from what it had applied by then. It could not know that it still led, nor that "
        "it had applied all that was committed. A leader must hear from a majority before it answers a read, or put the "
        "read into the log (section 8)."
    )
    back = [
        event for event in sim.story.events
        if event.what == "restart" and event.node != answer.src and 0 < answer.sent - event.at < SOON
    ]  # fmt: skip
    if back:
        text += (
            f" {back[-1].node} had restarted at {back[-1].at:.3f} s. If you use a lease: a node that restarts does not know "
            "what it acknowledged last, so it must not vote before a lease could be over."
        )
    return text


def _not_older(source: Operation | None, write: Operation) -> bool:
    return source is not None and (source is write or source.end > write.start)


def _mark(sim: Simulation, *asked: Asked) -> None:
    sim.story.marked.update(one.reply.number for one in asked if one.reply is not None)


def unsafe(scene: Scene, why: str = "", lost: bool = False) -> Diagnosis | None:
    """What must hold of every run: one leader a term, and answers that one order explains. `lost` is whether nodes forgot
    what a read does not find, as the script has left nobody else to ask."""
    done = [asked for client in (*scene.played.clients.values(), *scene.clients) for asked in client.done]
    return two_leaders(scene) or wrong_history(scene.bench, scene.sim, done, why, lost)
