"""A run for ui.perfetto.dev and chrome://tracing: the Trace Event Format as JSON.

(Duca and Sinclair, "Trace Event Format", Google, 2016: complete, flow, instant and metadata events.) A world is a
process. Each rank has a thread of what it did, and one each for the messages it sends and receives: there they lie
beside the waiting, for complete events of one thread must nest and may not overlap otherwise.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grader.trace import cards, scene
from grader.trace.cards import Card
from grader.trace.events import Trace
from grader.trace.scene import NEVER, Scene

ROUND_SECONDS = 1e-3  # a logical round is shown as a millisecond
_OWN, _SENDS, _RECEIVES = "", " sends", " receives"  # what the threads of a rank are for
_WORLD = 1  # process and threads count from 1: to Perfetto, 0 is the idle one
Event = dict[str, Any]
Lane = tuple[int, str, int]  # rank, what for, and which of those, where they would overlap


def chrome_json(
    trace: Trace, title: str, cycle: Sequence[int] = (), marks: Mapping[int, str] | None = None, unit: str = ""
) -> str:
    """The run as Trace Event Format JSON, times in microseconds; a logical round is a millisecond.

    What lasts for ever ends a tenth of the run after its last event, and says so in its name.
    """
    return json.dumps(_Writer(scene.of(trace, cycle, marks, unit), title).whole(), separators=(",", ":"))


class _Writer:
    def __init__(self, found: Scene, title: str) -> None:
        self.scene, self.title = found, title
        self.scale = 1e6 * (ROUND_SECONDS if found.unit.rounds else 1.0)
        self.end = found.makespan * 1.1 or 1.0
        self.threads: dict[Lane, int] = {}
        self.free: dict[int, float] = {}  # by thread, when its last slice is over
        for rank in range(found.ranks):
            self._thread((rank, _OWN, 0))

    def whole(self) -> dict[str, Any]:
        events = [*self._ranks(), *self._messages(), *self._faults()]
        named = [_named("process_name", 1, self.title)]
        kinds = (_OWN, _SENDS, _RECEIVES)
        for place, lane in enumerate(sorted(self.threads, key=lambda lane: (lane[0], kinds.index(lane[1]), lane[2]))):
            thread = self.threads[lane]
            named.append(_named("thread_name", thread, f"rank {lane[0]}{lane[1]}"))
            named.append({**_named("thread_sort_index", thread, ""), "args": {"sort_index": place}})
        # slices that begin together: the longer first, so that the shorter lies within it
        events.sort(key=lambda event: (event["ts"], event["ph"] != "X", -event.get("dur", 0)))
        shown = "one round is 1 ms" if self.scene.unit.rounds else "virtual time"
        return {
            "traceEvents": named + events,
            "displayTimeUnit": "ns" if self.scene.unit.name in ("ns", "µs") else "ms",
            "otherData": {"title": self.title, "time": shown},
        }

    def _at(self, time: float) -> float:
        """In microseconds, to the nanosecond."""
        return round(min(time, self.end) * self.scale, 3)

    def _slice(self, thread: int, name: str, since: float, until: float, card: Card, category: str) -> Event:
        begins = self._at(since)
        self.free[thread] = until
        words = {"what": card.head, **dict(card.rows), **{who: f"line {line}" for who, line in card.lines}}
        return {
            "name": name + (" (forever)" if until == NEVER else ""),
            "cat": category,
            "ph": "X",
            "pid": _WORLD,
            "tid": thread,
            "ts": begins,
            "dur": round(self._at(until) - begins, 3),
            "args": words,
        }

    def _ranks(self) -> Iterator[Event]:
        """Waiting, collectives and computing, rank by rank in the order of time."""
        found: list[tuple[float, float, int, str, Card, str]] = []
        for wait in self.scene.waits:
            name, kind = (wait.op.name, "collective") if wait.op.collective else (f"wait: {wait.op.name}", "wait")
            found.append((wait.since, wait.until, wait.op.rank, name, cards.wait(self.scene, wait), kind))
        for stretch in self.scene.faults("compute"):
            card = cards.stretch(self.scene, stretch)
            found.append((stretch.since, stretch.until, stretch.span.rank, "compute", card, "compute"))
        for since, until, rank, name, card, kind in sorted(found, key=lambda one: (one[0], -one[1], one[2])):
            thread = self._free(rank, _OWN, since)
            yield self._slice(thread, name, since, until, card, kind)

    def _thread(self, lane: Lane) -> int:
        return self.threads.setdefault(lane, len(self.threads) + 1)

    def _free(self, rank: int, what: str, since: float) -> int:
        """The first thread of a rank for `what` in which nothing goes on at `since`."""
        threads = (self._thread((rank, what, lane)) for lane in itertools.count())
        return next(thread for thread in threads if self.free.get(thread, -1.0) <= since)

    def _messages(self) -> Iterator[Event]:
        """Each message as a slice at both of its ends, and an arrow from one to the other."""
        for number, arrow in enumerate(self.scene.arrows):
            send, recv = arrow.send, arrow.recv
            card = cards.message(self.scene, arrow)
            ends = (
                (send.rank, _SENDS, f"to rank {recv.rank}", "s"),
                (recv.rank, _RECEIVES, f"from rank {send.rank}", "f"),
            )
            for rank, what, name, phase in ends:
                thread = self._free(rank, what, arrow.since)
                piece = self._slice(thread, name, arrow.since, arrow.until, card, "message")
                yield piece
                at = piece["ts"] if phase == "s" else round(piece["ts"] + max(piece["dur"] - 0.001, 0), 3)
                flow = {
                    "name": "message",
                    "cat": "message",
                    "ph": phase,
                    "id": number,
                    "pid": _WORLD,
                    "tid": thread,
                    "ts": at,
                }
                yield {**flow, "bp": "e"} if phase == "f" else flow

    def _faults(self) -> Iterator[Event]:
        for stretch in self.scene.stretches:
            if stretch.span.what != "compute":
                card = cards.stretch(self.scene, stretch)
                yield self._instant(stretch.span.rank, stretch.span.what, stretch.since, card)
        for rank, word in self.scene.marks.items():
            end = self.scene.finish[rank]
            yield self._instant(rank, word, end if end != NEVER else self.scene.makespan, cards.rank(self.scene, rank))

    def _instant(self, rank: int, name: str, time: float, card: Card) -> Event:
        args = {"what": card.head, **dict(card.rows)}
        base = {"name": name, "cat": "fault", "ph": "i", "s": "t", "pid": _WORLD, "tid": self._thread((rank, _OWN, 0))}
        return {**base, "ts": self._at(time), "args": args}


def _named(what: str, thread: int, name: str) -> Event:
    return {"name": what, "ph": "M", "pid": _WORLD, "tid": thread, "args": {"name": name}}
