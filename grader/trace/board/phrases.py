"""What a picture of nodes says: short labels of messages, events and operations, and what hovers over each in full."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from grader.trace.story import Fault, Happened, Sent
from grader.trace.times import number

LONGEST_HOVER, LONGEST_LABEL, LONGEST_VALUE = 1500, 34, 14
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SPACES = re.compile(r"\s+")
_PLUMBING = frozenset({"type", "msg_id", "in_reply_to", "src", "dest", "key", "value"})
# Fields that tell most, in order, and how they are called in a label ("" where the value says it all).
_TELLING = {
    "from": "from", "to": "to", "txn": "txn", "decision": "", "outcome": "", "vote": "", "granted": "granted",
    "vote_granted": "granted", "success": "success", "term": "term", "entries": "entries", "timestamp": "t", "ts": "t",
    "stamp": "t", "version": "v", "counter": "n", "clock": "", "ballot": "ballot", "index": "index", "commit": "commit",
    "leader_commit": "commit", "code": "", "message": "", "element": "", "delta": "",
}  # fmt: skip


def clean(text: str) -> str:
    """`text` as XML can hold it: what it cannot (control characters, lone surrogates) becomes a replacement mark."""
    return _NOT_XML.sub("\ufffd", text)


def line(text: str, longest: int = 0) -> str:
    """`text` on one line, cut short with an ellipsis where it is longer than `longest` characters."""
    flat = _SPACES.sub(" ", clean(text[: 4 * longest] if longest else text)).strip()
    return flat if not longest or len(flat) <= longest else flat[: longest - 1].rstrip() + "…"


def hover(text: str) -> str:
    """`text` as hovers over a part: as it is, unless it is very long."""
    if len(text) <= LONGEST_HOVER:
        return clean(text)
    return clean(text[:LONGEST_HOVER]) + f"… ({len(text):,} characters)"


def whole(value: Any) -> str:
    """A value as JSON, or as Python writes it where it has none."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def short(value: Any, longest: int = LONGEST_VALUE) -> str:
    """A value in a few characters: text without quotes, lists and dicts without spaces."""
    if isinstance(value, str):
        return line(value, longest) or '""'
    if isinstance(value, float) and value == value and abs(value) < 1e9:
        return number(value) if abs(value) >= 1e-6 or value == 0 else f"{value:.0e}"
    if isinstance(value, (list, tuple)) and len(value) <= 8:
        return line("[" + ",".join(short(item, longest) for item in value) + "]", longest)
    if isinstance(value, dict) and len(value) <= 8:
        return line("{" + ",".join(f"{short(k, 8)}:{short(v, 8)}" for k, v in value.items()) + "}", longest)
    return line(whole(value)[:400], longest)


def _field(name: str, value: Any) -> str:
    called = _TELLING.get(name, name)
    if isinstance(value, bool):
        return f"{'' if value else 'not '}{called or name}"
    if name == "entries" and isinstance(value, (list, tuple)):
        return f"+{len(value)} entr{'y' if len(value) == 1 else 'ies'}"
    return f"{called} {short(value)}".strip()


def fields(body: dict[str, Any]) -> Iterator[str]:
    """What a body says beside its type, the most telling first."""
    if "key" in body:
        yield f"{short(body['key'])}={short(body['value'])}" if "value" in body else short(body["key"])
    elif "value" in body:
        yield short(body["value"])
    told = [name for name in _TELLING if name in body]
    told += [name for name in body if name not in _TELLING and name not in _PLUMBING]
    for name in told:
        if body[name] is not None and not (name == "entries" and not body[name]):
            words = _field(str(name), body[name])
            # A field that is called as the message is ("state", "suspects") need not say its name once more.
            yield line(words.removeprefix(f"{body.get('type')} ") if name == body.get("type") else words, 24)


def labels(message: Sent) -> list[str]:
    """What may stand at a message's arrow, from the longest to the shortest."""
    kind = line(message.type, 24)
    told = list(fields(message.body))
    wanted: list[str] = []
    for count in (3, 2, 1, 0):
        words = " ".join([kind, *told[:count]])
        if (len(words) <= LONGEST_LABEL or not count) and words not in wanted:
            wanted.append(words)
    return wanted


def label(message: Sent) -> str:
    return labels(message)[0]


def moment(at: float, unit: str) -> str:
    """ "step 3", "0.153 s"."""
    return f"step {number(at)}" if unit == "step" else f"{number(round(at, 6))} s"


def fate(message: Sent, unit: str) -> str:
    """What became of a message, in words."""
    at = "" if message.arrived is None else f" at {moment(message.arrived, unit)}"
    return {
        "delivered": f"arrived{at}",
        "dropped": "dropped by the network",
        "cut": "cut off: nothing passed between the two" + at,
        "lost": f"lost: {line(message.dst, 40)} was {'down' if at else 'not there'}" + at,
        "in flight": "still under way at the end",
    }[message.fate]


def of_message(message: Sent, unit: str) -> str:
    """All that is known of a message, for hovering."""
    where = f" by line {message.line}" if message.line else ""
    made = "; a duplicate that the network made" if message.copy else ""
    ends = f"{line(message.src, 40)} to {line(message.dst, 40)}"
    return hover(
        f"{line(message.type, 60)} from {ends}; sent at "
        f"{moment(message.sent, unit)}{where}; {fate(message, unit)}{made}"
        f"\n{whole(message.body)}"
    )


_DOES = {
    "start": "starts", "restart": "restarts", "crash": "crashes", "pause": "stands still", "resume": "goes on",
    "timer": "gets timer {text}", "set_timer": "sets timer {text}", "write": "writes {text} to disk",
    "raised": "raises {text}", "state": "is now: {text}", "note": "notes: {text}", "answer": "answers {text}",
}  # fmt: skip


def does(event: Happened, longest: int = 0) -> str:
    """What a node does in an event, as a verb and what follows."""
    told = line(event.text, longest)
    clause = _DOES[event.what].format(text=told).rstrip(" :")
    return f"{clause} ({told})" if told and event.what in ("crash", "restart", "pause", "resume", "start") else clause


def of_event(event: Happened, unit: str) -> str:
    where = f"; line {event.line}" if event.line else ""
    return hover(f"{line(event.node, 40)} {does(event, LONGEST_HOVER)}; at {moment(event.at, unit)}{where}")


def state(text: str) -> str:
    """A change of state as a flag tells it: "role = leader, current_term = 3" is "leader, term 3"."""
    parts = []
    for part in text.split(", "):
        name, equals, value = part.partition(" = ")
        name = name.removeprefix("current_").removesuffix("_index")
        parts.append(part if not equals else value if name in ("role", "state", "status") else f"{name} {value}")
    return line(", ".join(parts), LONGEST_LABEL)


def names(nodes: Collection[str], lanes: Sequence[str]) -> str:
    """Names of nodes in the order of lanes, three or more in a row as "n1–n5"."""
    there = {name: at for at, name in enumerate(lanes)}
    runs: list[list[str]] = []
    for name in sorted(nodes, key=lambda name: (there.get(name, len(lanes)), name)):
        if runs and name in there and there.get(runs[-1][-1]) == there[name] - 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    told = [f"{run[0]}–{run[-1]}" if len(run) > 2 else " ".join(run) for run in runs]
    return line(" ".join(told), 60)


def links(pairs: Collection[tuple[str, str]], lanes: Sequence[str]) -> str:
    """Directed links in few words: "n1 → n2 n3, n2 → n1"."""
    targets: dict[str, set[str]] = {}
    for src, dst in pairs:
        targets.setdefault(src, set()).add(dst)
    sources: dict[frozenset[str], list[str]] = {}
    for src in sorted(targets):
        sources.setdefault(frozenset(targets[src]), []).append(src)
    told = [f"{names(some, lanes)} → {names(there, lanes)}" for there, some in sources.items()]
    return line(", ".join(told), 70)


_FAULTS = {
    "partition": "partition", "one-way": "cut one way", "down": "down", "pause": "stands still", "slow": "slow links",
    "loss": "messages are lost", "duplicates": "messages are duplicated",
}  # fmt: skip


def fault(found: Fault, lanes: Sequence[str]) -> str:
    """A fault in a few words, without its time."""
    if found.what in ("down", "pause"):
        return f"{' '.join(names(group, lanes) for group in found.groups)} {_FAULTS[found.what]}".strip()
    about = " | ".join(names(group, lanes) for group in found.groups)
    if found.pairs and (found.what == "one-way" or not about):
        about = links(found.pairs, lanes)
    kind = _FAULTS[found.what]
    told = line(found.text, 60)
    if told:
        return f"{kind}: {told}" if found.what in ("partition", "one-way") else told
    return f"{kind}: {about}" if about else kind


def of_fault(found: Fault, lanes: Sequence[str], unit: str, until: float) -> str:
    about = fault(found, lanes)
    groups = " | ".join(" ".join(group) for group in found.groups)
    more = f"; {groups}" if groups and groups not in about else ""
    return hover(f"{about}; from {moment(found.since, unit)} to {moment(until, unit)}{more}")


def operation(f: str, key: Any, value: Any, ended: str, error: Any = None, longest: int = LONGEST_VALUE) -> str:
    """A client's operation: "write x=2", "read x → 1", "cas x 1→2 failed", "write x=2 ?" where nobody knows."""
    name = "" if key is None else f" {short(key, longest)}"
    if f == "read":
        told = f"read{name} → {short(value, longest)}" if ended == "ok" else f"read{name}"
    elif f == "cas" and isinstance(value, (list, tuple)) and len(value) == 2:
        told = f"cas{name} {short(value[0], longest)}→{short(value[1], longest)}"
    else:
        told = f"{line(f, 20)}{name}"
        if value is not None:
            told += f"{'=' if name and f == 'write' else ' '}{short(value, longest)}"
    if ended == "fail":
        told += " failed" if error is None else f" failed ({short(error)})"
    return told + (" ?" if ended in ("info", "") else "")
