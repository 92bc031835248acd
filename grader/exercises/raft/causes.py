"""What the messages and disks of a run show of why a confirmed write is not read."""

from __future__ import annotations

from grader.nodes.registers import Operation
from grader.nodes.sim import Simulation
from grader.says import listed


def answerer(one: Operation) -> str:
    return one.asked.reply.src if one.asked.reply is not None else one.node


def cut_off(sim: Simulation, write: Operation) -> str:
    """In words, if a write was confirmed by a node that was cut off from a majority from the request to the answer."""
    node = answerer(write)
    for fault in sim.story.faults:
        group = next((group for group in fault.groups if node in group), ())
        lasted = fault.since <= write.start and write.end <= fault.until
        if fault.what == "partition" and not fault.text and lasted and 0 < 2 * len(group) <= len(sim.names):
            return (
                f"All that time {node} was cut off with {len(group)} of {len(sim.names)} nodes, itself included. Confirm a "
                "write only when a majority has it."
            )
    return ""


def deposed(sim: Simulation, write: Operation) -> str:
    """In words, if a node led when a write came, and confirmed it when it followed a leader of a later term."""
    node, request, reply = answerer(write), write.asked.request, write.asked.reply
    if request is None or request.arrived is None or reply is None:
        return ""
    own = [sent for sent in sim.story.sent if sent.src == node and request.arrived <= sent.sent <= reply.sent]
    led = [sent.body["term"] for sent in own if sent.type == "append_entries"]
    followed = [sent.body["term"] for sent in own if sent.type == "append_entries_res"]
    if not led or not followed or followed[-1] <= led[-1]:
        return ""
    return (
        f"{node} led term {led[0]} when this request came, and confirmed it as a follower in term {followed[-1]}. Check "
        "two things. Entries that conflict with the leader's are removed. And an answer goes out only if the entry that is "
        "applied has the term in which the request was appended."
    )


def kept(sim: Simulation, write: Operation, read: Operation) -> str:
    """In words, if the node that answered a read had what it does not find on disk: no message brought it later."""
    node, value, reply = answerer(read), write.value.strip('"'), read.asked.reply
    later = [sent for sent in sim.story.sent if reply and sent.dst == node and (sent.arrived or 0.0) > reply.sent]
    there = any(value in text for text in sim.places[node].disk.values()) if node in sim.places else False
    if not there or len(value) < 4 or any(sent.holds(value) for sent in later):
        return ""
    return (
        f"{node} had it on disk all the same. Check two things. After a restart, all committed entries "
        "are applied again. And no entry is applied at an index before it is known to be committed there."
    )


def few(sim: Simulation, write: Operation) -> str:
    """In words, if no majority of nodes had ever got a value when its write was confirmed."""
    node, value, reply = answerer(write), write.value.strip('"'), write.asked.reply
    had = {node} | {
        sent.dst for sent in sim.story.sent
        if reply and sent.dst in sim.names and sent.arrived is not None and sent.arrived <= reply.sent and sent.holds(value)
    }  # fmt: skip
    if 2 * len(had) > len(sim.names) or len(value) < 4:
        return ""
    return (
        f"When {node} confirmed it, only {len(had)} of {len(sim.names)} nodes had ever got it: {listed(sorted(had))}. "
    )
