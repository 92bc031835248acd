"""An engine in virtual time: requests come and are cancelled as a trace says, and everything that it does is "
"written down.

The same rules of time and order are used where an engine runs and where its record is judged.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from grader.serving import Chunk
from grader.serving.model import Model, plain

TICK = 0.5e-6  # seconds
STEP, TOKEN, READ = 10_000, 100, 1  # ticks of a step, of each token in it, of each cached position that is read
STILL = 2  # steps without a forward, while there is something to do, after which a run is ended


@dataclass(frozen=True)
class Request:
    """One request. `name` is what the engine knows it by."""

    name: Any
    prompt: tuple[int, ...]
    most: int  # new tokens


@dataclass(frozen=True)
class Event:
    """A submit or a cancel of the request with this number, when `at` (ticks) has come and the request `after[0]` has
    returned `after[1]` tokens or is over. Events happen in their order."""

    what: str
    request: int
    at: int = 0
    after: tuple[int, int] | None = None


@dataclass(frozen=True)
class Trace:
    """What an engine is given: its limits, the requests, and what happens when. `seed` decides the model's weights.
    `one_list`: equal prompts are submitted as one list, which its caller keeps."""

    blocks: int
    block_size: int
    budget: int
    requests: tuple[Request, ...]
    events: tuple[Event, ...]
    seed: int = 0
    eos: int = 0
    one_list: bool = False

    def told(self) -> list[Any]:
        """As lists, for a box."""
        requests = [[one.name, list(one.prompt), one.most] for one in self.requests]
        events = [[one.what, one.request, one.at, list(one.after or ())] for one in self.events]
        return [self.blocks, self.block_size, self.budget, requests, events, self.seed, self.eos, self.one_list]

    @classmethod
    def of(cls, told: Sequence[Any]) -> Trace:
        """The inverse of `told`; lists in names become tuples, which are hashable."""
        blocks, block_size, budget, requests, events, seed, eos, one_list = told
        made = tuple(
            Request(tuple(name) if isinstance(name, list) else name, tuple(prompt), most)
            for name, prompt, most in requests
        )
        happens = tuple(Event(what, one, at, tuple(after) or None) for what, one, at, after in events)
        return cls(blocks, block_size, budget, made, happens, seed, eos, one_list)


def ticks(chunks: Sequence[tuple[Sequence[int], int, Sequence[int]]]) -> int:
    """How long a step with these chunks takes: the token at position p reads p + 1 positions."""
    total = STEP
    for tokens, start, _ in chunks:
        end = start + len(tokens)
        total += TOKEN * len(tokens) + READ * (end * (end + 1) - start * (start + 1)) // 2
    return total


class Progress:
    """What has happened so far, by what steps returned: the time, who is over, and which events are due."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.eos = trace, trace.eos
        self.now = self.happened = 0
        self._rested = -1  # events that had happened when step() was last called with nothing to do
        self.returned: list[list[int]] = [[] for _ in trace.requests]
        self.over = [False] * len(trace.requests)
        self.submitted: list[int] = []

    @property
    def unfinished(self) -> list[int]:
        """Numbers of requests, in order of submission."""
        return [number for number in self.submitted if not self.over[number]]

    @property
    def ended(self) -> bool:
        return not self.unfinished and self.happened == self._rested == len(self.trace.events)

    def begin(self) -> list[Event]:
        """The events that happen before the next step. Whenever nothing is left to do there is one step without any;
        then time jumps to the next event."""
        found = [] if not self.unfinished and self.happened > self._rested else self._due()
        if not self.unfinished:
            self._rested = self.happened
        return found

    def _due(self) -> list[Event]:
        found: list[Event] = []
        events = self.trace.events
        while self.happened < len(events):
            event = events[self.happened]
            if not self._is_due(event):
                if self.unfinished:
                    break
                self.now = max(self.now, event.at)
            found.append(event)
            self.happened += 1
            if event.what == "submit":
                self.submitted.append(event.request)
            elif event.request in self.submitted:
                self.over[event.request] = True
        return found

    def _is_due(self, event: Event) -> bool:
        if event.at > self.now:
            return False
        if event.after is None:
            return True
        number, count = event.after
        return self.over[number] or len(self.returned[number]) >= count

    def stepped(self, chunks: Sequence[Any], returned: Sequence[tuple[int, Sequence[int]]]) -> None:
        """A step has ended that made a forward with these chunks (none: no time passes)."""
        if chunks:
            self.now += ticks(chunks)
        for number, tokens in returned:
            if 0 <= number < len(self.over) and not self.over[number]:
                mine = self.returned[number]
                mine.extend(tokens)
                done = self.eos in tokens or len(mine) >= self.trace.requests[number].most
                self.over[number] = bool(tokens) and done


class Recorded:
    """The model as an engine sees it: each forward is written down before it is made."""

    def __init__(self, model: Model) -> None:
        self.eos = model.eos
        self._model, self.forwards = model, list[list[Any]]()

    def forward(self, chunks: Sequence[Chunk]) -> Any:
        size, kept = self._model.block_size, []
        for chunk in chunks:
            tokens, start, table = plain(chunk)
            kept.append([tokens, start, table[: max(0, -(-(start + len(tokens)) // size))]])
        found = self._model.forward(chunks)
        self.forwards.append(kept)
        return found


def serve(make: Callable[..., Any], trace: Trace, most_steps: int) -> list[list[Any]]:
    """Run an engine to the end of a trace. Every step as [number of events before it, forwards, returned, oddities].

    `returned` is a list of [request's number, tokens]. A forward outside of step() stands in a step of its own, which
    has None in place of what it returned. Once whenever nothing is left to do, step() is called, too.
    """
    model = Model(trace.blocks, trace.block_size, trace.seed, trace.eos)
    recorded, progress = Recorded(model), Progress(trace)
    numbers = {request.name: number for number, request in enumerate(trace.requests)}
    engine = make(recorded, trace.blocks, trace.block_size, trace.budget)
    steps: list[list[Any]] = []
    kept: dict[tuple[int, ...], tuple[Any, list[int]]] = {}  # lists that come again, and who came first with each
    still = 0
    while len(steps) < most_steps and still < STILL and not progress.ended:
        for event in progress.begin():
            request = trace.requests[event.request]
            if event.what == "submit":
                prompt = list(request.prompt)
                if trace.one_list:
                    _, prompt = kept.setdefault(request.prompt, (request.name, prompt))
                engine.submit(request.name, prompt, request.most)
            else:
                engine.cancel(request.name)
        if recorded.forwards:
            steps.append([progress.happened, _taken(recorded), None, []])
        busy = bool(progress.unfinished)
        returned, odd = read(engine.step(), numbers)
        forwards = _taken(recorded)
        odd += [_changed(name, prompt, now) for prompt, (name, now) in kept.items() if now != list(prompt)]
        steps.append([progress.happened, forwards, returned, odd])
        progress.stepped(forwards[0] if forwards else (), returned)
        still = still + 1 if busy and not forwards else 0
    return steps


def _changed(name: Any, prompt: tuple[int, ...], now: list[int]) -> str:
    many = f"{len(now)}" if len(now) != len(prompt) else "other ones"
    return (
        f"the engine changed the list that submit() got as the prompt of request {name!r:.40}. The list had "
        f"{len(prompt)} tokens, and now it has {many}. The caller submits the same list again for another request, "
        "which would get a wrong prompt. Work on a copy: list(prompt)"
    )


def _taken(recorded: Recorded) -> list[Any]:
    forwards, recorded.forwards = recorded.forwards, []
    return forwards


def read(found: Any, numbers: dict[Any, int]) -> tuple[list[Any], list[str]]:
    """What step() returned, as [number, tokens] of each request; and what in it is something else, in words."""
    if not isinstance(found, dict):
        return [], [f"step() returned a {type(found).__name__} instead of a dict"]
    returned, odd = [], []
    for name, tokens in found.items():
        if name not in numbers:
            odd.append(f"step() returned tokens for {name!r:.40}, which is the id of no request")
            continue
        try:
            whole = [operator.index(token) for token in tokens]
        except TypeError:
            odd.append(f"step() returned {tokens!r:.40} for request {name!r:.40} instead of a list of ints")
            continue
        returned.append([numbers[name], whole])
    return returned, odd
