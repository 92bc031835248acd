"""What a run of cap_store shows of why a value is lacking: messages, disks, clocks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from grader.exercises.cap_store.plans import AGREED, ODD
from grader.nodes import registers
from grader.nodes.clients import Asked
from grader.nodes.plan import Played
from grader.nodes.registers import Operation, by_key
from grader.nodes.runs import Run, place
from grader.says import at, listed

FALSE = {json.dumps(value) for value in ODD if not value}  # what Python takes for false
NOT_TOLD = "A value that is taken for none"
NONE = {registers.NOTHING, *FALSE}
SHOWN = 200  # characters: what is longer on disk is cut short in a story


class View(Run):
    """A run, and what clients saw of each key."""

    def __init__(self, played: Played) -> None:
        super().__init__(played)
        self.operations = registers.operations(self.asked)


def final(run: View) -> Iterator[list[Operation]]:
    """For each key, the reads that were asked for 5 s or more after all faults and writes."""
    for history in by_key(run.operations).values():
        time = AGREED + max([run.whole_since, *(one.start for one in history if one.what == "write")])
        yield [one for one in history if one.what == "read" and one.start >= time]


def empty(run: View, node: str, missed: str) -> str:
    """What to do where a value that some node shows, and that Python takes for false, never came to this one, while
    another key's came to all."""
    there = [{read.value for read in reads} for reads in final(run)]
    wrote = any(one.what == "write" and (one.node, one.value) == (node, missed) for one in run.operations)
    if missed not in FALSE or wrote or not any(missed in values for values in there):
        return ""
    if all(len(values) > 1 or values & NONE for values in there):
        return ""
    if any(holds(message.body, missed) for message in run.reached(node)):
        return ""
    return (
        f"No message that reached {node} held {missed}. It is a value, too, but Python takes it for false. Where the node "
        "asks whether a key has a value, ask with `is None` or `in`."
    )


def _last_timers(run: View) -> str:
    """In words, with a space before them, what ended the timers, none of which went off after the faults."""
    back = next((event for event in run.story.events if event.what == "restart"), None)
    if back is not None:
        return (
            f" {back.node} was back from a crash at {back.at:.2f} s. A crash ends all timers, so set them in on_start."
        )
    last = max((event for event in run.story.events if event.what == "timer"), key=lambda event: event.at, default=None)
    return f" The last timer went off on {last.node} at {last.at:.2f} s." if last else ""


def why_apart(run: View, healed: float, one: Operation, other: Operation) -> str:
    """Why two nodes still return different values after the faults, where nothing else explains it."""
    since = [message for message in run.between() if message.sent >= healed]
    writes = {operation.value: operation for operation in run.operations if operation.what == "write"}
    if not since:
        timers = sorted({event.node for event in run.story.events if event.what == "timer" and event.at >= healed})
        return (
            "No node sent another node a message after the faults"
            + (f", although timers went off at {listed(timers)}" if timers else "")
            + ". A node is not told that the network is whole again, so "
            + (
                "at each timer send all that is kept, also from before a crash."
                if timers
                else "send by a timer, again and again." + _last_timers(run)
            )
        )
    lacks = [
        (node, holder, value)
        for node, holder, value in ((one.node, other.node, other.value), (other.node, one.node, one.value))
        if value in writes and writes[value].node != node
        and not any(holds(message.body, value) for message in run.reached(node))
    ]  # fmt: skip
    silent = {holder for _, holder, _ in lacks} - {message.src for message in since}
    if silent:
        return f"{listed(sorted(silent))} sent no message to another node after the faults. Let every node tell what it has."
    for node, _, value in lacks:
        return f"No message that reached {node} held {value}. A node must notice that it lacks a write, and be told it."
    first, second = writes.get(one.value), writes.get(other.value)
    # Of a value like 0 or [] nobody can tell whether it is what a message holds, or a count.
    if first and second and first.node != second.node and not {one.value, other.value} & FALSE:
        return (
            f"{one.value} was written at {first.node} at {at(first.start)}, {other.value} at {second.node} at "
            f"{at(second.start)}. All nodes must prefer the same one of two writes, no matter which arrives last."
        )
    return "Let nodes tell all that they have, and all choose the same value."


def holds(body: Any, value: str) -> bool:
    """Whether this value, as JSON, stands anywhere in a message, also as a part of a text, quoted once or more."""
    value, text = (re.sub(r"[\\\s]", "", each) for each in (value, json.dumps(body)))
    return re.search(rf"(?<![\w.]){re.escape(value)}(?![\w.])", text) is not None


def by_clock(run: View, write: Operation) -> bool:
    """Whether a message of the node that served this write tells what its clock said then, next to the value."""
    [member] = [member for member in run.plan.members if member.name == write.node]
    request, reply = write.asked.request, write.asked.reply
    if request is None or request.arrived is None:
        return False
    least, most = (member.offset + member.rate * time for time in (request.arrived, reply.sent if reply else write.end))
    told = " ".join(
        json.dumps(one.body) for one in run.between() if one.src == write.node and holds(one.body, write.value)
    )
    numbers = re.findall(r"-?\d+(?:\.\d+)?", told)
    seconds = any("." in number and least - 0.001 <= float(number) <= most + 0.001 for number in numbers)
    return seconds or any(
        least * unit - 1 <= float(number) <= most * unit + 1 for number in numbers for unit in (1e3, 1e6, 1e9)
    )


def clocked(run: View, newer: Operation, older: Operation) -> str:
    """What to do where the newer of these two values went to other nodes with a clock's time, and it is the smaller one."""
    writes = {one.value: one for one in run.operations if (one.what, one.key) == ("write", newer.key)}
    new, old = writes.get(newer.value), writes.get(older.value)
    if new is None or not by_clock(run, new):
        return ""
    least = run.offsets[old.node] + old.start if old else 0.0
    mine = run.offsets[new.node] + new.start
    if mine >= least:
        return ""
    than = (
        f"the write of {old.value} began when the clock of {old.node} said {least:.1f} s" if old else "this is below 0"
    )
    return (
        f" {new.node} told the others {new.value} together with the time of its own clock, about {mine:.1f} s, but {than}. "
        "Clocks differ, so do not order writes by them. Count on from the highest number that a majority knows."
    )


def crashed(run: View, lost: Operation, crash: float) -> str:
    """What a confirmed write had on disk when its node crashed, and what to do."""
    disk = [
        event.text for event in run.story.events
        if event.what == "write" and event.node == lost.node and lost.start <= event.at <= crash
    ]  # fmt: skip
    if any(holds(text, lost.value) for text in disk):
        return (
            f" {lost.node} had written {lost.value} to its disk when it crashed at {at(crash)}. After a restart it must still "
            "have the value and the number that orders it, and tell the others."
        )
    text = f" {lost.node} crashed at {at(crash)}, and only its disk survives a crash."
    if all(len(each) < SHOWN for each in disk):
        text += f" Nothing that it wrote to disk by then held {lost.value}."
    return f"{text} A confirmed write replaces what it follows: write it, and the number that orders it, to disk before you answer."


def overwritten(run: View, nodes: Sequence[str], newer: str, older: str, until: float) -> str:
    """Which of these nodes put the older value over the newer one on its disk, the last time, and what to do."""
    disk: dict[tuple[str, str], str] = {}
    found = ""
    for event in run.story.events if not {newer, older} & NONE else ():
        if event.what != "write" or event.node not in nodes or event.at > until:
            continue
        key, _, text = event.text.partition(" = ")
        text = text if len(text) < SHOWN else ""
        if holds(disk.get((event.node, key), ""), newer) and holds(text, older) and not holds(text, newer):
            found = (
                f" {event.node} had {newer} on its disk, and at {at(event.at)}{place(event.line)} wrote {older} over it. Never "
                "put an older value over a newer one, no matter which arrives last."
            )
        disk[event.node, key] = text
    return found


def too_soon(run: View, write: Operation) -> str:
    """Which nodes a written value had reached when the write was confirmed, if they are no majority, and what to do."""
    reply, size = write.asked.reply, len(run.names)
    told = [one for one in run.between() if holds(one.body, write.value)]
    if write.what != "write" or reply is None or not told:
        return ""
    there = {one.dst for one in told if one.fate == "delivered" and (one.arrived or 0.0) <= reply.sent} | {write.node}
    if 2 * len(there) > size:
        return ""
    return (
        f" When {write.node} confirmed the write, {write.value} had reached only {len(there)} of {size} nodes: "
        f"{listed(sorted(there))}. A majority is {size // 2 + 1}. Confirm a write only after a majority has answered that it "
        "keeps the value."
    )


def forwarded(run: View, asked: Asked) -> bool:
    """Whether a node asked only nodes that answered, and these had heard from a majority meanwhile: it may have let one of
    them serve the request."""
    request, reply, node = asked.request, asked.reply, asked.ask.node
    if request is None or request.arrived is None or reply is None:
        return False
    sent = run.between(request.arrived - 1e-9, reply.sent)
    if not {one.dst for one in sent if one.src == node} <= run.heard(asked):
        return False
    behind = {name: [(0.0, {name})] for name in run.names}  # of whom each had heard by when, also by way of others
    for one in sorted((one for one in sent if one.fate == "delivered"), key=lambda one: one.arrived or 0.0):
        if one.arrived is not None and one.arrived <= reply.sent:
            then = set[str]().union(*(names for time, names in behind[one.src] if time <= one.sent))
            behind[one.dst].append((one.arrived, then))
    known = set[str]().union(*(names for _, names in behind[node]))
    return 2 * len(known) > len(run.names)
