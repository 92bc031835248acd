"""What is wrong with logs, in sentences: which node and request, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from grader.nodes.histories.logs import Finding, Operation, Send
from grader.nodes.protocol import error_name
from grader.nodes.workloads.workload import Call
from grader.says import at


def sentence(found: Finding) -> str:
    """What a finding of `grader.nodes.histories.logs` says, whose operations have their Call as `tag`."""
    return _WORDS[found.what](found)


def _call(one: Operation) -> Call:
    call = one.tag
    assert isinstance(call, Call)
    return call


def _when(one: Operation) -> str:
    return at(_call(one).end or 0.0)


def _shown(one: Operation, message: Any, offset: int | None) -> str:
    """How a pair became known: "n1 acknowledged message 5 at offset 3 (0.10 s)"."""
    call = _call(one)
    if isinstance(one, Send):
        return f"{call.node} acknowledged message {message!r:.40} at offset {offset} ({_when(one)})"
    return f"{call.node} answered a poll with message {message!r:.40} at offset {offset} ({_when(one)})"


def _changed(found: Finding) -> str:
    first, second = found.evidence
    return (
        f"Key {found.key} has two messages at one offset: {_shown(first, found.message, found.offset)}, and "
        f"{_shown(second, found.other, found.offset)}. An offset always holds the same message, whichever node is asked"
    )


def _shared(found: Finding) -> str:
    first, second = found.evidence
    return (
        f"Key {found.key}: two sends got the same offset. {_shown(first, found.message, found.offset)}, and "
        f"{_shown(second, found.other, found.offset)}. Give each message of a key an offset of its own. Nodes that "
        "take messages at the same time must agree on the offsets"
    )


def _order(found: Finding) -> str:
    first, second = found.evidence
    return (
        f"Key {found.key}: {_call(second).node} gave offset {found.offset} to a message that was sent at "
        f"{at(_call(second).start)}, but {_call(first).node} had acknowledged offset {found.other} before, at "
        f"{_when(first)}. A consumer that has read offset {found.other} never reads the later message. Give a later "
        "send a greater offset"
    )


def _unordered(found: Finding) -> str:
    (poll,) = found.evidence
    return (
        f"{_call(poll).node} answered a poll of key {found.key} with offset {found.offset} after offset {found.other} "
        f"({_when(poll)}). Return the messages in increasing order of their offsets, each once"
    )


def _unasked(found: Finding) -> str:
    (poll,) = found.evidence
    asked = f"from offset {found.other} on" if found.other is not None else "about other keys"
    return (
        f"{_call(poll).node} answered a poll with offset {found.offset} of key {found.key}, but the client asked "
        f"{asked} ({_when(poll)}). Return only messages at or after the offset that was asked for"
    )


def _skipped(found: Finding) -> str:
    shown, poll = found.evidence
    since = _call(poll).asked.get(found.key)
    known = "had " if shown.end <= poll.begin else ""
    return (
        f"{_call(poll).node} answered a poll of key {found.key} from offset {since} with offset {found.other}, but "
        f"without offset {found.offset} ({_when(poll)}). {_call(shown).node} {known}"
        f"{'acknowledged' if isinstance(shown, Send) else 'returned'} offset {found.offset} at {_when(shown)}. A "
        "consumer that goes on from there never reads it. Return every message up to the last one that you return"
    )


def _twice(found: Finding) -> str:
    sent, first, second = found.evidence
    return (
        f"Key {found.key}: message {found.message!r:.40}, which was sent once at {at(_call(sent).start)}, is at two "
        f"offsets: {_shown(first, found.message, found.other)}, and {_shown(second, found.message, found.offset)}. "
        "Append each message once, also if you repeat a request between nodes"
    )


def _refused(found: Finding) -> str:
    sent, poll = found.evidence
    return (
        f"{_shown(poll, found.message, found.offset)} of key {found.key}, but {_call(sent).node} had refused to send "
        f"it, with error {error_name(_call(sent).error or 0)}, which promises that it did not happen and never will"
    )


def _unsent(found: Finding) -> str:
    poll = found.evidence[0]
    return f"{_shown(poll, found.message, found.offset)} of key {found.key}, which no client had sent until then"


def _lost(found: Finding) -> str:
    sent, poll = found.evidence
    return (
        f"At the end {_call(poll).node} did not return offset {found.offset} of key {found.key} to a client that "
        f"polled the whole log from offset 0. {_shown(sent, found.message, found.offset)}. Acknowledge a message only "
        "when it cannot be lost any more, and let every node return it"
    )


def _vanished(found: Finding) -> str:
    first, _ = found.evidence
    return (
        f"{_shown(first, found.message, found.offset)} of key {found.key}, but at the end no node returned it. Return "
        "in a poll only messages that cannot be lost any more"
    )


def _committed_refused(found: Finding) -> str:
    commit, listed = found.evidence
    return (
        f"{_call(listed).node} listed the committed offset {found.offset} of key {found.key} ({_when(listed)}), but "
        f"{_call(commit).node} had refused to commit it, with error {error_name(_call(commit).error or 0)}"
    )


def _uncommitted(found: Finding) -> str:
    (listed,) = found.evidence
    return (
        f"{_call(listed).node} listed the committed offset {found.offset} of key {found.key} ({_when(listed)}), which "
        "no client had committed until then. A consumer that starts there may miss messages. List only offsets that "
        "clients committed"
    )


def _back(found: Finding) -> str:
    first, listed = found.evidence
    call = _call(first)
    known = "acknowledged the commit of" if call.f == "commit_offsets" else "listed"
    shown = "none" if found.offset is None else str(found.offset)
    return (
        f"{_call(listed).node} listed {shown} as the committed offset of key {found.key} ({_when(listed)}), but "
        f"{call.node} had {known} {found.other} at {_when(first)}"
    )


_WORDS: Mapping[str, Callable[[Finding], str]] = {
    "changed": _changed, "shared": _shared, "order": _order, "unordered": _unordered, "unasked": _unasked,
    "skipped": _skipped, "twice": _twice, "refused": _refused, "unsent": _unsent, "lost": _lost, "vanished": _vanished,
    "back": _back, "commit-refused": _committed_refused, "uncommitted": _uncommitted,
}  # fmt: skip
