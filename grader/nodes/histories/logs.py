"""What clients saw of replicated logs: sends, polls and committed offsets, and what is wrong with it.

Each key has a log of its own, of pairs (offset, message). A pair is *shown* by the answer to its send, or by a poll.
The rules (those of Kafka's and Maelstrom's clients; Jepsen's kafka workload looks for the same mistakes):

- What an offset of a key holds is the same whoever shows it, and each send has an offset of its own.
- A send that begins after another one's answer gets a greater offset.
- A poll's offsets grow, from where it was asked to begin. What it leaves out up to its last one is never shown at all.
- Each shown pair is that of one send which had begun, and none that was refused.
- A list of committed offsets shows at least what was committed or shown before it began, and only what was committed.

It takes n log n steps for n pairs. Knows nothing of nodes, and nothing of who asks: times may be places among events.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

NEVER = math.inf

Status = Literal["ok", "fail", "info"]  # done; refused, which promises that nothing happened; nobody knows
What = Literal[
    "changed",  # (shown, shown otherwise): two messages at one offset
    "shared",  # (send, send): two sends were given the same offset
    "order",  # (send, later send): whose offset is not greater
    "unordered",  # (poll,): offsets that do not grow
    "unasked",  # (poll,): a key that was not asked for, or an offset before that asked for
    "skipped",  # (shown, poll): which goes past a pair without it
    "twice",  # (send, shown, shown): one send at two offsets
    "refused",  # (send, poll): which was refused and happened
    "unsent",  # (poll,) or (poll, send): a message that nobody had sent
    "lost",  # (send, last poll of a final reader): acknowledged, and not there in the end
    "vanished",  # (poll, last poll): polled once, and in the end nowhere
    "back",  # (commit or list, list): a committed offset that is less than one known before
    "commit-refused",  # (commit, list): which was refused and happened
    "uncommitted",  # (list,): an offset that nobody had committed
]


@dataclass(frozen=True, slots=True)
class Send:
    """A message for a key's log; `offset` is what its answer said. `end` is infinite unless it was answered ok.

    `tag` is whatever the caller wants to find again in a finding (a request, a process).
    """

    key: str
    message: Any
    begin: float
    end: float = NEVER
    offset: int | None = None
    status: Status = "info"
    tag: Any = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Poll:
    """An answered poll: by key, from which offset on it `asked`, and the pairs that it got."""

    asked: Mapping[str, int]
    got: Mapping[str, Sequence[tuple[int, Any]]]
    begin: float
    end: float
    tag: Any = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of an offset for each of some keys."""

    offsets: Mapping[str, int]
    begin: float
    end: float = NEVER
    status: Status = "info"
    tag: Any = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Listed:
    """An answered list of committed offsets: which keys were asked for, and the offsets that were shown."""

    keys: Sequence[str]
    offsets: Mapping[str, int]
    begin: float
    end: float
    tag: Any = field(default=None, compare=False)


Operation = Send | Poll | Commit | Listed


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: of which key, at which offset (for `order`, `back`: the later operation's), and the
    operations that show it, as `What` lists them. `other` is the second offset or message where there are two: of
    `changed` the two messages are (`message`, `other`), of `twice`, `order` and `back` it is the earlier offset."""

    what: What
    key: str
    offset: int | None
    evidence: tuple[Operation, ...]
    message: Any = None
    other: Any = None

    @property
    def time(self) -> float:
        """When it could be seen: the end of the last of the operations, of those which have one."""
        return max((one.end for one in self.evidence if one.end < NEVER), default=NEVER)


def findings(operations: Iterable[Operation], final: Mapping[Any, Sequence[Poll]] | None = None) -> list[Finding]:
    """All that is wrong, by when it could be seen first; of each key each kind of mistake once.

    `final` are polls by readers (nodes, say) that read keys to their ends when all was whole again, in their order.
    They count as operations, too, and need not be among the others. A reader misses no key that it never asked for.
    """
    final = final or {}
    listed = [*operations, *(poll for polls in final.values() for poll in polls)]
    found: dict[tuple[str, str], Finding] = {}
    for one in (*_pairs(listed, final), *_committed(listed)):
        place = one.what, one.key
        if place not in found or one.time < found[place].time:
            found[place] = one
    return sorted(found.values(), key=lambda one: one.time)


def same(one: Any, other: Any) -> bool:
    """Whether two messages are the same JSON."""
    return _text(one) == _text(other)


def _text(message: Any) -> str:
    return json.dumps(message, sort_keys=True)


# ---- the log of one key


@dataclass
class _Log:
    """What was asked and shown of one key. `first` is, by offset, which operation showed it first, and its message."""

    key: str
    sends: list[Send] = field(default_factory=list)
    polls: list[tuple[Poll, Sequence[tuple[int, Any]]]] = field(default_factory=list)
    first: dict[int, tuple[Send | Poll, Any]] = field(default_factory=dict)

    @property
    def acknowledged(self) -> list[Send]:
        return [send for send in self.sends if send.status == "ok" and send.offset is not None]


def _pairs(operations: Sequence[Operation], final: Mapping[Any, Sequence[Poll]]) -> Iterator[Finding]:
    logs: dict[str, _Log] = {}

    def log(key: str) -> _Log:
        return logs.setdefault(key, _Log(key))

    for one in operations:
        if isinstance(one, Send):
            log(one.key).sends.append(one)
        elif isinstance(one, Poll):
            for key, pairs in one.got.items():
                log(key).polls.append((one, pairs))
    for each in logs.values():
        yield from _shapes(each)
        yield from _shown(each)
        yield from _increasing(each)
        yield from _skipped(each)
        yield from _sent_once(each)
        yield from _gone(each, final)


def _shapes(log: _Log) -> Iterator[Finding]:
    """Polls that do not grow from where they were asked to begin."""
    for poll, pairs in log.polls:
        if not pairs:
            continue
        offsets = [offset for offset, _ in pairs]
        since = poll.asked.get(log.key)
        if since is None or min(offsets) < since:
            yield Finding("unasked", log.key, min(offsets), (poll,), other=since)
        for one, after in pairwise(offsets):
            if after <= one:
                yield Finding("unordered", log.key, after, (poll,), other=one)
                break


def _shown(log: _Log) -> Iterator[Finding]:
    """Offsets that hold two messages, or were given to two sends. Notes what was shown first."""
    shown: list[tuple[float, Send | Poll, int, Any]] = [
        (send.end, send, send.offset, send.message) for send in log.acknowledged if send.offset is not None
    ]
    shown += [(poll.end, poll, offset, message) for poll, pairs in log.polls for offset, message in pairs]
    texts: dict[int, str] = {}
    given: dict[int, Send] = {}
    for _, one, offset, message in sorted(shown, key=lambda each: each[0]):
        text = _text(message)
        if offset not in texts:
            log.first[offset], texts[offset] = (one, message), text
        elif text != texts[offset]:
            before, other = log.first[offset]
            if isinstance(before, Poll) or isinstance(one, Poll):
                yield Finding("changed", log.key, offset, (before, one), other, message)
        if isinstance(one, Send):
            if offset in given:
                yield Finding("shared", log.key, offset, (given[offset], one), given[offset].message, message)
            given.setdefault(offset, one)


def _increasing(log: _Log) -> Iterator[Finding]:
    """Sends whose offset is not greater than that of one which was answered before they began."""
    ended = sorted(log.acknowledged, key=lambda send: send.end)
    place, greatest = 0, None
    for send in sorted(log.acknowledged, key=lambda send: send.begin):
        while place < len(ended) and ended[place].end <= send.begin:
            if greatest is None or _offset(ended[place]) > _offset(greatest):
                greatest = ended[place]
            place += 1
        if greatest is not None and greatest is not send and _offset(send) <= _offset(greatest):
            yield Finding("order", log.key, send.offset, (greatest, send), send.message, greatest.offset)


def _offset(send: Send) -> int:
    assert send.offset is not None
    return send.offset


def _skipped(log: _Log) -> Iterator[Finding]:
    """The first poll that went past a pair without it, whenever that pair was shown."""
    every = sorted(log.first)
    for poll, pairs in sorted(log.polls, key=lambda each: each[0].end):
        if not pairs:
            continue
        got = {offset for offset, _ in pairs}
        since, last = poll.asked.get(log.key, min(got)), max(got)
        begin, end = bisect_left(every, since), bisect_right(every, last)
        if end - begin > sum(offset >= since for offset in got):
            missing = [offset for offset in every[begin:end] if offset not in got]
            # what was known before the poll began says most
            offset = min(missing, key=lambda each: (log.first[each][0].end > poll.begin, each))
            shown, message = log.first[offset]
            yield Finding("skipped", log.key, offset, (shown, poll), message, last)
            return


def _sent_once(log: _Log) -> Iterator[Finding]:
    """Pairs that are not those of one send each, begun before they were shown."""
    given: dict[tuple[int, str], Send] = {}
    for send in sorted(log.acknowledged, key=lambda each: each.begin):
        given.setdefault((_offset(send), _text(send.message)), send)
    by_text: dict[str, list[Send]] = defaultdict(list)
    for send in log.sends:
        by_text[_text(send.message)].append(send)
    open_ones = {text: sorted(send.begin for send in sends if send.status == "info") for text, sends in by_text.items()}
    first_polls: dict[tuple[int, str], tuple[Poll, Any]] = {}
    for poll, pairs in sorted(log.polls, key=lambda each: each[0].end):
        for offset, message in pairs:
            first_polls.setdefault((offset, _text(message)), (poll, message))
    taken: dict[str, int] = defaultdict(int)
    where: dict[str, tuple[Poll, int]] = {}  # where a text was polled before
    for (offset, text), (poll, message) in first_polls.items():
        where.setdefault(text, (poll, offset))
        own = given.get((offset, text))
        if own and own.begin <= poll.end:
            continue
        begun, place = open_ones.get(text, []), taken[text]
        taken[text] += 1
        if place < len(begun) and begun[place] <= poll.end:
            continue
        sends = [each for each in by_text.get(text, []) if each.begin <= poll.end]
        real = [each for each in sends if each.status != "fail"]
        if real:
            sent = next((each for each in real if each.offset is not None), real[0])
            before: tuple[Operation, int] = where[text] if sent.offset is None else (sent, sent.offset)
            yield Finding("twice", log.key, offset, (sent, before[0], poll), message, before[1])
        elif sends:
            yield Finding("refused", log.key, offset, (sends[0], poll), message)
        else:
            yield Finding("unsent", log.key, offset, (poll, own) if own else (poll,), message)


def _gone(log: _Log, final: Mapping[Any, Sequence[Poll]]) -> Iterator[Finding]:
    """What final readers did not find, also where they went past it, which is `skipped` as well."""
    if not final:
        return
    given = {send.offset: send for send in log.acknowledged}
    everywhere: set[int] = set()
    read = {reader: [poll for poll in polls if log.key in poll.asked] for reader, polls in final.items()}
    for polls in read.values():
        got = {offset for poll in polls for offset, _ in poll.got.get(log.key, ())}
        everywhere |= got
        lost = [offset for offset in given if offset is not None and offset not in got]
        if lost and polls:
            offset = min(lost)
            yield Finding("lost", log.key, offset, (given[offset], polls[-1]), given[offset].message)
    polls = [poll for each in read.values() for poll in each]
    nowhere = [offset for offset in log.first if offset not in everywhere and offset not in given]
    if nowhere and polls:
        offset = min(nowhere)
        shown, message = log.first[offset]
        yield Finding("vanished", log.key, offset, (shown, polls[-1]), message)


# ---- committed offsets


def _committed(operations: Sequence[Operation]) -> Iterator[Finding]:
    commits: dict[str, list[Commit]] = defaultdict(list)
    lists: dict[str, list[Listed]] = defaultdict(list)
    for one in operations:
        if isinstance(one, Commit):
            for key in one.offsets:
                commits[key].append(one)
        elif isinstance(one, Listed):
            for key in dict.fromkeys((*one.keys, *one.offsets)):  # in their order: a set has none that is the same
                lists[key].append(one)
    for key, listed in lists.items():
        yield from _backwards(key, commits[key], listed)
        yield from _from_nowhere(key, commits[key], listed)


def _backwards(key: str, commits: Sequence[Commit], lists: Sequence[Listed]) -> Iterator[Finding]:
    """Lists that show less than what was answered before they began."""
    known: list[tuple[float, int, Commit | Listed]] = [
        (one.end, one.offsets[key], one) for one in commits if one.status == "ok"
    ]
    known += [(one.end, one.offsets[key], one) for one in lists if key in one.offsets]
    known.sort(key=lambda each: each[0])
    place, greatest = 0, None
    for one in sorted((each for each in lists if key in each.keys), key=lambda each: each.begin):
        while place < len(known) and known[place][0] <= one.begin:
            if greatest is None or known[place][1] > greatest[1]:
                greatest = known[place]
            place += 1
        if greatest is not None and greatest[2] is not one and one.offsets.get(key, -1) < greatest[1]:
            yield Finding("back", key, one.offsets.get(key), (greatest[2], one), None, greatest[1])


def _from_nowhere(key: str, commits: Sequence[Commit], lists: Sequence[Listed]) -> Iterator[Finding]:
    """Lists that show what no client had committed, or a commit that was refused."""
    first: dict[int, Commit] = {}
    refused: dict[int, Commit] = {}
    for commit in sorted(commits, key=lambda each: each.begin):
        (refused if commit.status == "fail" else first).setdefault(commit.offsets[key], commit)
    for one in lists:
        shown = one.offsets.get(key)
        if shown is None or (shown in first and first[shown].begin <= one.end):
            continue
        if shown in refused and refused[shown].begin <= one.end:
            yield Finding("commit-refused", key, shown, (refused[shown], one))
        else:
            yield Finding("uncommitted", key, shown, (one,))
