"""Histories: operations of clients with the time at which each began and ended, read from and written as JSON lines.

A line is an event as Jepsen writes them: {"process", "type": invoke|ok|fail|info, "f": read|write|cas|append, "key",
"value", "time"}. `ok` ends an operation that took effect, `fail` one that did not, except a cas with "error": 22
(Maelstrom's "precondition failed"), which saw another value. After `info`, or with no completion, nobody knows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from grader.submission import BadRequest

Process = int | str
Key = int | str | None
Status = Literal["ok", "fail", "unseen", "info"]

FUNCTIONS = ("read", "write", "cas", "append")
TYPES = ("invoke", "ok", "fail", "info")
NEMESIS = "nemesis"  # Jepsen's own process, which makes faults: its events are no operations
PRECONDITION_FAILED = 22
NEVER = math.inf
LATEST = 2**63  # no clock counts further, in whatever unit
_NANOSECONDS_FROM = 1_000_000  # whole numbers at least so large are Jepsen's nanoseconds, smaller ones were typed


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a client, from its invocation to its completion.

    `value` is the argument: what is written or appended, (from, to) of a cas, None of a read; `result` what a read
    returned. `status`: "ok"; "fail" (did not happen); "unseen" (a cas that saw another value than its `from`); "info"
    (nobody knows whether it happened). `start` and `end` are seconds, `end` is infinite for "info". `called` and
    `returned` are the places of its two events among all events in the order of time (`returned` infinite for "info"):
    they alone decide what was before what, so that times that are equal leave the order of the lines.
    """

    process: Process
    f: str
    key: Key
    value: Any = field(hash=False)
    result: Any = field(hash=False)
    status: Status
    start: float
    end: float
    called: int
    returned: float

    def before(self, other: Operation) -> bool:
        """Whether this one had ended when the other began."""
        return self.returned < other.called


def read(path: Path) -> list[Operation]:
    """The operations of a file of JSON lines, in the order in which they began. Raises BadRequest."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise BadRequest(f"{path}: no such file") from None
    except IsADirectoryError:
        raise BadRequest(f"{path}: is a folder, not a file") from None
    except OSError as error:
        raise BadRequest(f"{path}: cannot be read ({error.strerror})") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadRequest(f"{path}: line {line} holds bytes that are not UTF-8. A history is JSON lines") from None
    return parse(text, str(path))


def parse(text: str, name: str = "history") -> list[Operation]:
    """The operations of a text of JSON lines; `name` is what messages call it. Raises BadRequest."""
    events, lines = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            events.append(_event(line, f"{name}: line {number}"))
            lines.append(number)
    return pair(events, name, lines)


def dump(events: Iterable[Mapping[str, Any]]) -> str:
    """Events as JSON lines, the inverse of `parse` before pairing."""
    return "".join(json.dumps(event, allow_nan=False) + "\n" for event in events)


def pair(
    events: Sequence[Mapping[str, Any]], name: str = "history", lines: Sequence[int] | None = None
) -> list[Operation]:
    """The operations that these events begin and end, in the order in which they began.

    Events may come in any order as long as those of each process are in the order of time; at equal times, the earlier
    in the sequence came first. Where no event has a time, their order is all that counts. `lines` are the numbers that
    messages give the events (1, 2, ... if left out). Raises BadRequest, with one sentence that names the line.
    """
    numbers = range(1, len(events) + 1) if lines is None else lines
    mine = [at for at, event in enumerate(events) if event.get("process") != NEMESIS]
    if not mine:
        raise BadRequest(f"{name}: holds no operations")
    timed = any(events[at].get("time") is not None for at in mine)
    times: dict[int, float] = {}
    for at in mine:
        where = f"{name}: line {numbers[at]}"
        _check(events[at], where)
        times[at] = _time(events[at], where) if timed else at
    places = {at: place for place, at in enumerate(sorted(mine, key=lambda at: (times[at], at)))}
    unit = _seconds(times.values())
    opened: dict[Process, tuple[int, int | None]] = {}  # by process: its last invocation and that one's completion
    ends: dict[int, int] = {}
    for at in mine:
        event, where = events[at], f"{name}: line {numbers[at]}"
        process = event["process"]
        begun, ended = opened.get(process, (-1, -1))
        last = begun if ended is None else ended
        if last is not None and last >= 0 and times[at] < times[last]:
            raise BadRequest(
                f"{where}: {called(process)} goes back in time, from {times[last]:g} on line {numbers[last]} to "
                f"{times[at]:g}"
            )
        if event["type"] == "invoke":
            if ended is None:
                raise BadRequest(
                    f"{where}: {called(process)} begins an operation while its {events[begun]['f']} of line "
                    f"{numbers[begun]} is still open"
                )
            opened[process] = (at, None)
            continue
        if ended is not None:
            raise BadRequest(f"{where}: {event['type']} of {called(process)} ends an operation that never began")
        _match(events[begun], event, where, numbers[begun])
        opened[process] = (begun, at)
        ends[begun] = at
    return sorted(
        (
            _operation(events[at], events[ends[at]] if at in ends else None, times[at] * unit, places[at],
                       times[ends[at]] * unit if at in ends else NEVER, places[ends[at]] if at in ends else NEVER)
            for at in mine
            if events[at]["type"] == "invoke"
        ),
        key=lambda operation: operation.called,
    )  # fmt: skip


def called(process: Process) -> str:
    """What sentences call a process: a name as it is, a number as "process 3"."""
    return process if isinstance(process, str) else f"process {process}"


def _event(line: str, where: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        event = json.loads(line, parse_constant=refuse)
    except (ValueError, RecursionError):
        what = "EDN, not JSON" if line.lstrip().startswith("{:") else "not JSON"  # Jepsen and Maelstrom write EDN
        raise BadRequest(f"{where} is {what}. Write one JSON object per line") from None
    if not isinstance(event, dict):
        raise BadRequest(f"{where} is not a JSON object. Write one per line, with process, type, f, value and time")
    return event


def _check(event: Mapping[str, Any], where: str) -> None:
    """What can be said of one event alone."""
    process, type_, f, key = (event.get(name) for name in ("process", "type", "f", "key"))
    if isinstance(process, bool) or not isinstance(process, int | str):
        raise BadRequest(f"{where}: the process must be a number or a name, not {json.dumps(process)}")
    if type_ not in TYPES:
        raise BadRequest(f"{where}: the type must be one of {', '.join(TYPES)}, not {json.dumps(type_)}")
    if f not in FUNCTIONS and not (f is None and type_ != "invoke"):
        raise BadRequest(f"{where}: f must be one of {', '.join(FUNCTIONS)}, not {json.dumps(f)}")
    if isinstance(key, bool) or not (key is None or isinstance(key, int | str)):
        raise BadRequest(f"{where}: a key is text or a whole number, not {json.dumps(key)}")
    if type_ != "invoke":
        return
    if f != "read" and "value" not in event:
        raise BadRequest(f"{where}: a {f} needs a value")
    value = event.get("value")
    if f == "cas" and not (isinstance(value, list | tuple) and len(value) == 2):
        raise BadRequest(f"{where}: the value of a cas is [from, to], not {json.dumps(value)[:40]}")
    if f == "append" and not isinstance(value, str):
        raise BadRequest(f"{where}: what is appended must be text, not {json.dumps(value)[:40]}")


def _time(event: Mapping[str, Any], where: str) -> float:
    """As it is written, so that large whole numbers keep their order."""
    time = event.get("time")
    if time is None:
        raise BadRequest(f"{where} has no time, but other lines have one")
    if isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time < LATEST:
        raise BadRequest(f"{where}: the time must be a number from 0 to 2^63, not {json.dumps(time)[:40]}")
    return time


def _seconds(times: Iterable[float]) -> float:
    """How many seconds one unit of time is: Jepsen writes whole nanoseconds, people write seconds."""
    given = list(times)
    whole = all(isinstance(time, int) for time in given)
    return 1e-9 if whole and max(given) >= _NANOSECONDS_FROM else 1.0


def _match(begun: Mapping[str, Any], ended: Mapping[str, Any], where: str, line: int) -> None:
    """A completion must be that of the operation which its process has open."""
    for name in ("f", "key"):
        if ended.get(name) is not None and ended[name] != begun.get(name):
            raise BadRequest(
                f"{where}: the {name} is {json.dumps(ended[name])}, but the operation that {called(ended['process'])} "
                f"began on line {line} has {json.dumps(begun.get(name))}"
            )
    if ended["type"] == "ok" and begun["f"] == "read" and "value" not in ended:
        raise BadRequest(f"{where}: a read that is ok must have the value that it returned")


def _operation(
    begun: Mapping[str, Any], ended: Mapping[str, Any] | None, start: float, place: int, end: float, back: float
) -> Operation:
    f: str = begun["f"]
    value: Any = begun.get("value")
    status: Status = "info" if ended is None else ended["type"]
    if status == "info":
        end = back = NEVER
    assert ended is not None or status == "info"
    if status == "fail" and f == "cas" and ended is not None and _code(ended.get("error")) == PRECONDITION_FAILED:
        status = "unseen"
    argument = None if f == "read" else tuple(value) if f == "cas" else value
    result = ended.get("value") if ended is not None and f == "read" and status == "ok" else None
    return Operation(begun["process"], f, begun.get("key"), argument, result, status, start, end, place, back)


def _code(error: Any) -> Any:
    """Maelstrom's code of an error, which some write as [code, text]."""
    return error[0] if isinstance(error, list | tuple) and error else error
