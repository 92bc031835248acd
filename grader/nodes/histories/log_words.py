"""Sentences for what `logs` finds: what happened, what was expected, what to do."""

from __future__ import annotations

import json
from collections.abc import Callable

from grader.nodes.histories.logs import NEVER, Commit, Finding, Listed, Operation, Poll, Send

LONGEST = 60  # characters of a message that is quoted
ONE_CHOOSES = " Let one node at a time choose the offsets of a key, and only after it knows all earlier ones."

COMES_AGAIN = " Recognize a request that arrives again."
KEPT_BY_MOST = " Acknowledge it only when a majority has it on disk, and bring it to every node."


def sentence(finding: Finding, who: Callable[[Operation], str]) -> str:
    """What is wrong, in two or three parts. `who` names an operation, as "the poll by c1 at n2 at 1.20 s"."""
    shown = [who(one) for one in finding.evidence]
    key, at, last = f"key {finding.key!r}", finding.offset, finding.evidence[-1]
    message = _quoted(finding.message)
    match finding.what:
        case "changed":
            return (
                f"Offset {at} of {key} holds {message} by {shown[0]}, and {_quoted(finding.other)} by {shown[1]}. A "
                "pair that was acknowledged or polled once never changes. Show and acknowledge only what no other "
                "message can replace."
            )
        case "shared":
            return (
                f"Two sends were given offset {at} of {key}: {shown[0]}, and {shown[1]}. Each message has an offset "
                f"of its own.{ONE_CHOOSES}"
            )
        case "order":
            return (
                f"{_big(shown[1])} was given offset {at} of {key}, although it began after offset {finding.other} "
                f"was given to {shown[0]}. A later send gets a greater offset, at whatever node. Choose offsets "
                "after all acknowledged ones."
            )
        case "unordered":
            return (
                f"{_big(shown[0])} returned offset {at} of {key} after offset {finding.other}. The offsets of a poll "
                "grow. Sort the messages by offset, and return each once."
            )
        case "unasked":
            since = (
                "this key was not asked for" if finding.other is None else f"it asked for offsets from {finding.other}"
            )
            return (
                f"{_big(shown[0])} returned offset {at} of {key}, but {since}. Return only messages of the keys "
                "asked for, at or after the offset asked for."
            )  # fmt: skip
        case "skipped":
            later = finding.evidence[0].end > (last.begin if isinstance(last, Poll) else 0)
            how = "acknowledged by" if isinstance(finding.evidence[0], Send) else "returned by"
            then = f", and that was {how} {shown[0]}{' later' if later else ''}"
            return (
                f"{_big(shown[1])} returned offset {finding.other} of {key} but not {message} at offset {at}{then}. "
                "A consumer goes on after the last offset of a poll, so it never sees what was left out. Return a "
                "message only when everything before it is there and final."
            )
        case "twice":
            return (
                f"{_big(shown[0])} is one message, {message}, and it has two offsets of {key}: {finding.other} and, by "
                f"{shown[2]}, {at}. A message is in the log once.{COMES_AGAIN}"
            )
        case "refused":
            return (
                f"{_big(shown[1])} returned {message} at offset {at} of {key}. The answer to {shown[0]} was an error "
                "which promises that nothing happened and never will. Answer error 0 or 13 where that is not known."
            )
        case "unsent":
            why = f"{shown[1]} began after that" if len(shown) > 1 else "no client had sent it for this key"
            return (
                f"{_big(shown[0])} returned {message} at offset {at} of {key}, but {why}. Return messages exactly as "
                "they were sent, each under its own key."
            )
        case "lost":
            return (
                f"{_big(shown[0])} was acknowledged with offset {at} of {key}, and {shown[1]} ended without it. An "
                f"acknowledged message never disappears.{KEPT_BY_MOST}"
            )
        case "vanished":
            return (
                f"{_big(shown[0])} returned {message} at offset {at} of {key}, and in the end no node returns it. "
                "What was polled once never disappears. Return only messages that a majority has on disk."
            )
        case "back":
            then = "no offset" if at is None else f"offset {at}"
            before = finding.evidence[0]
            how = f"{shown[0]} was answered" if isinstance(before, Commit) else f"{shown[0]} showed it"
            return (
                f"{_big(shown[1])} shows {then} of {key}, but before it began, offset {finding.other} was committed: "
                f"{how}. Committed offsets never go back, at any node. A lower commit changes nothing."
            )
        case "commit-refused":
            return (
                f"{_big(shown[1])} shows offset {at} of {key}. Only {shown[0]} asked for it, and the answer was "
                "an error which promises that nothing happened. Answer error 0 or 13 where that is not known."
            )
        case "uncommitted":
            return (
                f"{_big(shown[0])} shows offset {at} of {key}, and no client had committed that. Show the greatest "
                "committed offset, and no key that was never committed."
            )


def operation_words(one: Operation) -> str:
    """An operation by its times, where a caller has no better name: "the poll at 1.2 (answered at 1.25)"."""
    what = {Send: "send", Poll: "poll", Commit: "commit", Listed: "list of committed offsets"}[type(one)]
    return f"the {what} at {one.begin:g}" + (f" (answered at {one.end:g})" if one.end < NEVER else " (not answered)")


def _big(text: str) -> str:
    return text[:1].upper() + text[1:]


def _quoted(message: object) -> str:
    text = json.dumps(message, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
