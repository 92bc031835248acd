"""Maelstrom's protocol: what a message looks like, what error codes promise, and sentences for what is neither.

One message is one line of JSON, `{"src", "dest", "body"}`. A body has a `type`; a request has a `msg_id`, its answer
that number as `in_reply_to` (Maelstrom, doc/protocol.md, sections "Messages", "Message Bodies" and "Errors").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

Body = dict[str, Any]

LONGEST_LINE = 2**20  # bytes
SHOWN = 80  # characters of a line that is quoted


@dataclass(frozen=True)
class ErrorCode:
    """A code of an error body. A definite error promises that the request did not happen, and never will."""

    code: int
    name: str
    definite: bool


ERRORS: Mapping[int, ErrorCode] = {
    each.code: each
    for each in (
        ErrorCode(0, "timeout", False),
        ErrorCode(1, "node-not-found", True),
        ErrorCode(10, "not-supported", True),
        ErrorCode(11, "temporarily-unavailable", True),
        ErrorCode(12, "malformed-request", True),
        ErrorCode(13, "crash", False),
        ErrorCode(14, "abort", True),
        ErrorCode(20, "key-does-not-exist", True),
        ErrorCode(21, "key-already-exists", True),
        ErrorCode(22, "precondition-failed", True),
        ErrorCode(30, "txn-conflict", True),
    )
}
TIMEOUT, NOT_SUPPORTED, MALFORMED = 0, 10, 12
NO_SUCH_KEY, PRECONDITION_FAILED = 20, 22


def definite(code: int) -> bool:
    """Whether an error of this code promises that nothing happened; a program's own codes (1000 and up) do not."""
    return code in ERRORS and ERRORS[code].definite


def error_name(code: int) -> str:
    """The field's name of a code, for people: "20 (key-does-not-exist)"."""
    return f"{code} ({ERRORS[code].name})" if code in ERRORS else str(code)


@dataclass(frozen=True)
class Message:
    """One message on its way; `body` is plain JSON."""

    src: str
    dest: str
    body: Body

    @property
    def type(self) -> str:
        return str(self.body.get("type", "(no type)"))

    def line(self) -> bytes:
        """The message as a node reads it: one line of ASCII."""
        return json.dumps({"src": self.src, "dest": self.dest, "body": self.body}).encode() + b"\n"


class Malformed(Exception):  # noqa: N818 - reads as what the line is
    """What is no message, or no answer: the text is half a sentence that goes on from the node's name."""


def parse(line: bytes) -> Message:
    """The message on a line that a node printed. Raises Malformed, and nothing else, whatever the line holds."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise Malformed(
            f"printed bytes to stdout that are not UTF-8 text: {quoted(line)}, at byte {error.start + 1} of the "
            f"line. {RULE}"
        ) from None
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise Malformed(f"printed JSON that is nested too deep: {quoted(line)}. {RULE}") from None
    except json.JSONDecodeError as error:
        why = f"{error.msg[:1].lower()}{error.msg[1:]} at character {error.pos + 1}"
        raise Malformed(f"printed a line to stdout that is not JSON: {quoted(line)} ({why}). {RULE}") from None
    except ValueError as error:  # NaN, or a number with thousands of digits
        raise Malformed(f"printed a line to stdout that is not JSON: {quoted(line)} ({error}). {RULE}") from None
    if not isinstance(found, dict):
        raise Malformed(f"printed JSON that is not an object: {quoted(line)}. {RULE}")
    for key in ("src", "dest"):
        if key not in found:
            raise Malformed(f"printed a message without {key!r}: {quoted(line)}. {RULE}")
        if not isinstance(found[key], str):
            raise Malformed(f"printed a message whose {key!r} is not a string: {quoted(line)}. {RULE}")
    body = found.get("body")
    if not isinstance(body, dict):
        raise Malformed(f"printed a message whose 'body' is not an object: {quoted(line)}. {RULE}")
    for key in ("msg_id", "in_reply_to"):
        if key in body and body[key] is not None and not is_integer(body[key]):
            raise Malformed(f"printed a message whose {key!r} is not an integer: {quoted(line)}. {RULE}")
    return Message(found["src"], found["dest"], body)


RULE = (
    "Print only messages to stdout, each as a line of JSON like "
    '{"src": "n1", "dest": "c1", "body": {"type": "echo_ok", "in_reply_to": 1}}. Print anything else to stderr'
)


def is_integer(value: object) -> bool:
    """Whether JSON's value is an integer: true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def quoted(line: bytes | str) -> str:
    """The beginning of a line, safe to print anywhere."""
    text = line.decode("utf-8", "backslashreplace") if isinstance(line, bytes) else line
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[:SHOWN])
    return f"`{shown}`" + (f"... ({len(text):,} characters)" if len(text) > SHOWN else "")


def error(code: int, text: str) -> Body:
    """The body of an error; the caller adds `in_reply_to`."""
    return {"type": "error", "code": code, "text": text}


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
