"""How a box ended badly, in words that all engines share."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grader.sandbox.client import Beyond, plain
from grader.sandbox.limits import MIB
from grader.verdict import Kind

MOST_NAME = 100  # characters of a type's name

# what is said of a process whose words cannot be read
NO_ANSWER: tuple[Kind, str] = ("sandbox_violation", "The submission sent a message that the grader cannot read.")
_KINDS: dict[str, Kind] = {"memory": "out_of_memory", "cpu": "timeout"}


def beyond(passed: Beyond, sentences: Mapping[str, str], **words: object) -> tuple[Kind, str]:
    """The kind and the sentence for a limit of the box that was passed.

    `sentences` are by limit, "" for all others, to be formatted with `used` and `allowed` (of memory in MiB), `limit`,
    and `words`.
    """
    if passed.limit == "frames" and "frames" not in sentences:
        return NO_ANSWER
    unit = MIB if passed.limit == "memory" else 1
    sentence = sentences.get(passed.limit, sentences[""])
    text = sentence.format(used=passed.used / unit, allowed=passed.allowed / unit, limit=passed.limit, **words)
    return _KINDS.get(passed.limit, "sandbox_violation"), text


@dataclass(frozen=True)
class Raised:
    """An exception that left the learner's code: when it was compiled ("compile"), loaded ("load") or called.

    `why` is more than its type says, if anything: "memory", "syntax", "forbidden", "peer", "stuck", "ended", or a limit
    of the box. `note` is a sentence of the exercise's harness in the box: which call it was.
    """

    type: str
    text: str
    line: int | None
    stage: str = ""
    why: str = ""
    note: str = ""

    @classmethod
    def read(cls, told: Mapping[str, Any], most: int = 1000) -> Raised:
        """As a process of the box told it (see `program.raised`)."""
        line = told.get("line")
        return cls(
            plain(told.get("type"), MOST_NAME), plain(told.get("text"), most),
            line if isinstance(line, int) else None, str(told.get("stage")), str(told.get("why")),
            plain(told.get("note", ""), most),
        )  # fmt: skip


def raised(error: Raised, file: str, place: str, when: str) -> tuple[Kind, str]:
    """The kind and the sentence for a program that raised something when it was loaded or, say, called."""
    if error.stage == "compile":
        return "syntax_error", f"{file} is not valid Python: {error.type}: {error.text}{place}."
    return "crash", f"{file} raised {error.type}: {error.text}{place}{when}."


def died(status: int) -> str:
    """What became of a process: "was killed by SIGKILL", "ended with exit status 3"."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
