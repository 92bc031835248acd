"""Histories: operations of clients with the time at which each began and ended, read from JSON lines or EDN.

A line is an event as Jepsen writes them, as JSON or (its history.edn) as EDN: {"process", "type": invoke|ok|fail|info,
"f": read|write|cas|append, "key", "value", "time"}. `ok` ends an operation that took effect, `fail` one that did not,
except a cas with "error": 22 (Maelstrom's "precondition failed"), which saw another value. After `info`, or with no
completion, nobody knows.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from grader.nodes.histories import edn
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
    """The operations of a file of JSON lines or EDN, in the order in which they began. Raises BadRequest."""
    return parse(text_of(path), str(path))


def text_of(path: Path) -> str:
    """What is in a file. Raises BadRequest."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise BadRequest(f"{path}: no such file") from None
    except IsADirectoryError:
        raise BadRequest(f"{path}: is a folder, not a file") from None
    except OSError as error:
        raise BadRequest(f"{path}: cannot be read ({error.strerror})") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadRequest(
            f"{path}: line {line} holds bytes that are not UTF-8. A history is JSON lines or EDN"
        ) from None


def parse(text: str, name: str = "history") -> list[Operation]:
    """The operations of a text of JSON lines or EDN; `name` is what messages call it. Raises BadRequest."""
    events, lines = events_of(text, name)
    return pair(_by_key(events) if edn.looks_like(text) else events, name, lines)


def events_of(text: str, name: str = "history") -> tuple[list[dict[str, Any]], list[int]]:
    """The events of a text of JSON lines or EDN, and the line on which each begins. Raises BadRequest."""
    events, lines = [], []
    if edn.looks_like(text):
        ends = [at for at, c in enumerate(text) if c == "\n"]
        try:
            for value, place in edn.values(text):
                number = bisect_right(ends, place) + 1
                for event in value if isinstance(value, list) else [value]:
                    if not isinstance(event, dict):
                        raise BadRequest(f"{name}: line {number} holds {shortened(event)}, which is not a map")
                    events.append(event)
                    lines.append(number)
        except edn.NotEdnError as error:
            raise BadRequest(f"{name}: line {bisect_right(ends, error.place) + 1} is not EDN: {error.what}") from None
        return events, lines
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            events.append(_event(line, f"{name}: line {number}"))
            lines.append(number)
    return events, lines


def shortened(value: Any) -> str:
    """A value of an event, as messages say it."""
    return json.dumps(value, default=str)[:40]


def _by_key(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Where every value is a pair, also that of a read which was only asked, they are Jepsen's independent keys."""
    asked = [event for event in events if event.get("type") == "invoke" and event.get("process") != NEMESIS]
    reads = [event for event in asked if event.get("f") == "read"]
    pairs = all(isinstance(event.get("value"), list) and len(event["value"]) == 2 for event in asked)
    if not reads or not pairs or any("key" in event for event in asked):
        return events
    return [
        {**event, "key": event["value"][0], "value": event["value"][1]}
        if isinstance(event.get("value"), list) and event.get("process") != NEMESIS else event
        for event in events
    ]  # fmt: skip


def dump(events: Iterable[Mapping[str, Any]]) -> str:
    """Events as JSON lines, the inverse of `parse` before pairing."""
    return "".join(json.dumps(event, allow_nan=False) + "\n" for event in events)


@dataclass(frozen=True)
class Asked:
    """The invocation of one operation and its completion (None: never), both events with their places among the events
    given. `called` and `returned` are places in the order of time, `start` and `end` seconds, as in Operation."""

    begun: Mapping[str, Any]
    ended: Mapping[str, Any] | None
    at: int
    ends_at: int | None
    called: int
    returned: float
    start: float
    end: float


def pair(
    events: Sequence[Mapping[str, Any]], name: str = "history", lines: Sequence[int] | None = None
) -> list[Operation]:
    """The operations that these events begin and end, in the order in which they began.

    Events may come in any order as long as those of each process are in the order of time; at equal times, the earlier
    in the sequence came first. Where no event has a time, their order is all that counts. `lines` are the numbers that
    messages give the events (1, 2, ... if left out). Raises BadRequest, with one sentence that names the line.
    """
    return [
        _operation(one.begun, one.ended, one.start, one.called, one.end, one.returned)
        for one in paired(events, name, lines, _check, _match)
    ]


def paired(
    events: Sequence[Mapping[str, Any]], name: str, lines: Sequence[int] | None,
    check: Callable[[Mapping[str, Any], str], None],
    match: Callable[[Mapping[str, Any], Mapping[str, Any], str, int], None],
) -> list[Asked]:  # fmt: skip
    """Invocations with their completions, in the order in which they began; see `pair`.

    `check(event, where)` raises BadRequest for an event that is none of this sort, `match(begun, ended, where, line)`
    for a completion that is not that of the operation which its process began on `line`.
    """
    numbers = range(1, len(events) + 1) if lines is None else lines
    mine = [at for at, event in enumerate(events) if event.get("process") != NEMESIS]
    if not mine:
        raise BadRequest(f"{name}: holds no operations")
    timed = any(events[at].get("time") is not None for at in mine)
    times: dict[int, float] = {}
    for at in mine:
        where = f"{name}: line {numbers[at]}"
        check(events[at], where)
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
        match(events[begun], event, where, numbers[begun])
        opened[process] = (begun, at)
        ends[begun] = at
    found = []
    for at in sorted((at for at in mine if events[at]["type"] == "invoke"), key=places.__getitem__):
        end = ends.get(at)
        ended_, returned, until = (None, NEVER, NEVER) if end is None else (events[end], places[end], times[end] * unit)
        found.append(Asked(events[at], ended_, at, end, places[at], returned, times[at] * unit, until))
    return found


def called(process: Process) -> str:
    """What sentences call a process: a name as it is, a number as "process 3"."""
    return process if isinstance(process, str) else f"process {process}"


def _event(line: str, where: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        event = json.loads(line, parse_constant=refuse)
    except (ValueError, RecursionError):
        what = "EDN, not JSON as the first one" if edn.looks_like(line) else "not JSON"
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
