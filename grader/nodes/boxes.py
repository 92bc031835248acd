"""The boxes of one grading, and the worlds that live in them side by side.

A node's turn is short, and asking a box for it takes longer than the turn. So checks are worked on side by side, each
until it needs to know what its nodes do; what all of them ask for then goes to the box as one request. There are two
halves of them: while the box works for the one, we go on with the other, in turn, however long each takes. Nothing of
it is seen outside: worlds share nothing, and each goes its own way from its own seed.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

from grader.lost import Lost
from grader.nodes.actors import Asked, Branch, Turn, past_asked, turn_asked
from grader.nodes.boxed import Allowance, Boxed, Code, Posted
from grader.nodes.life import Birth, Step
from grader.sandbox.warm import BoxFailed, Warm
from grader.verdict import Diagnosis

UNDER_WAY = 2  # requests at a time: the box works for one while we work on the answers to the other
MOST_ENDLESS = 3  # boxes that broke, after which no other is made
RELIVED = 200  # inputs that are given again in one request
MOST_AGAIN = 24  # inputs of one run that are given again in one request, where many runs are made again side by side
MOST_CHARACTERS_AGAIN = 50_000  # of what nodes did on them the first time

T = TypeVar("T")
Answers = list[Any] | BaseException
Request = tuple["World", list[tuple[int, Asked]]]
Item = tuple[int, int]  # the number of a request, and of what is asked in it


class World:
    """Nodes in one of the boxes, or spread over several; implements `actors.Actors`. Where a box breaks by another
    world's doing, its nodes live again in a new one, by the same inputs."""

    def __init__(self, boxes: Boxes, places: Sequence[int] = (0,)) -> None:
        self.watched = boxes.watched
        self.lived: list[tuple[Turn, Step]] | None = None  # all turns and what came of them, where they are to be kept
        self._boxes, self._places = boxes, tuple(places)
        self._where: dict[str, int] = {}
        self.name = boxes.name()
        self.past: dict[int, list[Asked]] = defaultdict(list)  # all that was asked, by place
        self.home: dict[int, Boxed] = {}

    def turns(self, turns: Sequence[Turn]) -> list[Step]:
        for turn in turns:
            if turn.birth is not None and (missing := self._boxes.missing(turn.birth)):
                raise missing
        steps: list[Step] = self._boxes.ask(
            self, [(self._place(turn.node), turn_asked(self.name, turn)) for turn in turns]
        )
        if self.lived is not None:
            self.lived += zip(turns, steps, strict=True)
        return steps

    def lives_again(self, lived: Sequence[tuple[Turn, Step]]) -> bool:
        """Give nodes, in an empty world, the inputs of a whole run once more, many at a time. Returns whether they do
        what they did: if so, the run would be the same, message by message. Raises Lost."""
        for some in _shares(lived):
            turns = [turn for turn, _ in some]
            for (_, before), step in zip(some, self.turns(turns), strict=True):
                if step.effects != before.effects or repr(step.state) != repr(before.state):
                    return False
        return True

    def forget(self) -> None:
        self._boxes.over(self.name, self._places)
        self.name = self._boxes.name()
        for kept in (self._where, self.past, self.home):
            kept.clear()

    def branch(self, birth: Birth, past: int, what: list[Any], now: float) -> Branch:
        if missing := self._boxes.missing(birth):
            raise missing
        (found,) = self._boxes.ask(self, [(self._places[0], past_asked(self.name, birth, past, what, now))])
        return found  # type: ignore[no-any-return]

    def _place(self, node: str) -> int:
        """Where a node lives: the first at the first place, and so on in turn."""
        return self._where.setdefault(node, self._places[len(self._where) % len(self._places)])


def _shares(lived: Sequence[tuple[Turn, Step]]) -> Iterator[list[tuple[Turn, Step]]]:
    """So many at a time as may be asked for in one request, which is neither to take long nor to tell much."""
    some: list[tuple[Turn, Step]] = []
    characters = 0
    for turn, step in lived:
        characters += sum(len(effect[2] or "") for effect in step.effects if effect[0] in ("send", "write"))
        some.append((turn, step))
        if len(some) >= MOST_AGAIN or characters > MOST_CHARACTERS_AGAIN:
            yield some
            some, characters = [], 0
    if some:
        yield some


@contextlib.contextmanager
def world(warm: Warm, code: Code, watched: tuple[str, ...] = ()) -> Iterator[World]:
    """A world in a box of its own, for one who needs no other."""
    with contextlib.closing(Boxes(warm, code, watched)) as boxes:
        yield World(boxes)


class _Round:
    """What some worlds ask at once, on its way to the boxes and back: `asking` are who waits for it."""

    def __init__(self, requests: Sequence[Request], asking: Sequence[greenlet]) -> None:
        self.requests, self.asking = requests, asking
        self.answers: list[list[Any]] = [[None] * len(asked) for _, asked in requests]
        self.failed: dict[int, BaseException] = {}
        self.left: dict[int, list[Item]] = defaultdict(list)  # by place, what is not asked yet
        self.posted: list[tuple[int, Boxed, Posted, list[Item]]] = []
        for request, (_, asked) in enumerate(requests):
            for number, (place, _) in enumerate(asked):
                self.left[place].append((request, number))

    def forget(self, one: greenlet) -> None:
        """It waits no more: its nodes are not asked again where their box breaks."""
        for request, other in enumerate(self.asking):
            if other is one:
                self.failed[request] = GreenletExit()


class Boxes:
    """Makes boxes when they are first needed, and anew where one broke; asks them for all worlds together."""

    def __init__(self, warm: Warm, code: Code, watched: tuple[str, ...]) -> None:
        self._warm, self._code, self.watched = warm, code, watched
        self._allowance = Allowance()
        self._at: dict[int, Boxed] = {}
        self._over: dict[int, list[str]] = defaultdict(list)
        self._broken: list[Lost] = []
        self._printed = ""
        self._names = 0
        self._hub: greenlet | None = None  # who asks the boxes, while works are done side by side
        self._begun: list[greenlet] = []
        self._waiting: dict[greenlet, Request] = {}
        self._under_way: deque[_Round] = deque()
        self._joining: dict[greenlet, list[greenlet]] = {}  # who waits for the end of which works
        self._before: dict[greenlet, list[greenlet]] = {}  # which works come before one that may wait for them

    # ---- worlds

    def name(self) -> str:
        """A name for one more world."""
        self._names += 1
        return str(self._names)

    def over(self, world: str, places: Sequence[int]) -> None:
        """Nobody will ask for this world's nodes any more."""
        for place in places:
            self._over[place].append(world)

    def hopeless(self) -> Diagnosis | None:
        """Why not one node can be made; None if some can, or the program has none."""
        return self._box(0).hopeless() if self._code.classes else None

    def missing(self, birth: Birth) -> Lost | None:
        """Why a life cannot begin."""
        return self._box(0).missing(birth)

    # ---- work that is done side by side

    def together(self, works: Sequence[Callable[[], T]], waiting: bool = False) -> Generator[T, None, None]:
        """Do all works side by side, each until it asks nodes for something. Returns their results in order; raises
        what the first of them raises. Works that are `waiting` may wait for those before them."""
        done: dict[int, tuple[T | None, Exception | None]] = {}

        def worker(number: int) -> greenlet:
            def run() -> None:
                try:
                    done[number] = works[number](), None
                except Exception as error:
                    done[number] = None, error

            made = greenlet(run, parent=self._hub or getcurrent())
            made.gr_context = contextvars.copy_context()
            return made

        workers = [worker(number) for number in range(len(works))]
        for number, one in enumerate(workers if waiting else ()):
            self._before[one] = workers[:number]
        self._begun += workers
        try:
            for number in range(len(works)):
                while number not in done:
                    self._go_on(workers)
                result, error = done.pop(number)
                if error is not None:
                    raise error
                yield result  # type: ignore[misc]
        finally:
            self._end(workers)

    def wait_for_those_before(self) -> None:
        """Go on when the works before this one are done: what counts if none of them raises is not begun in vain."""
        before = self._before.get(getcurrent(), [])
        while any(not one.dead for one in before):
            self._go_on(before)

    def _go_on(self, workers: list[greenlet]) -> None:
        """Wait until one more of these works is done. Who is not at work itself does meanwhile what there is to do."""
        here = getcurrent()
        if self._hub is not None:
            self._joining[here] = [worker for worker in workers if not worker.dead]
            self._hub.switch()
            return
        self._hub = here
        try:
            self._step()
        finally:
            self._hub = None

    def _step(self) -> None:
        """Let everybody work who can; then ask for what others wait for, and go on with those who waited longest."""
        while self._begun:
            self._begun.pop(0).switch()
        for one, workers in self._joining.items():
            if any(worker.dead for worker in workers):
                del self._joining[one]
                one.switch()
                return
        while self._waiting and len(self._under_way) < UNDER_WAY:
            asking = len(self._waiting) + sum(len(other.asking) for other in self._under_way)
            some = dict(islice(self._waiting.items(), -(-asking // UNDER_WAY)))
            for one in some:
                del self._waiting[one]
            self._under_way.append(self._posted(list(some.values()), list(some)))
        if self._under_way:
            answered = self._under_way.popleft()
            for one, answer in zip(answered.asking, self._answers(answered), strict=True):
                if not one.dead:  # nobody has ended it meanwhile
                    one.throw(answer) if isinstance(answer, BaseException) else one.switch(answer)

    def _end(self, workers: list[greenlet]) -> None:
        """Nobody wants to hear any more what comes of these works."""
        for one in workers:
            self._before.pop(one, None)
            if one in self._begun:
                self._begun.remove(one)
            self._waiting.pop(one, None)
            self._joining.pop(one, None)
            for asked in self._under_way:
                asked.forget(one)
            if one:  # it has begun and not ended
                one.parent = getcurrent()
                one.throw(GreenletExit)

    def ask(self, world: World, asked: list[tuple[int, Asked]]) -> list[Any]:
        """What nodes of a world do, each asked at its place. Raises Lost."""
        if self._hub is not None:
            self._waiting[getcurrent()] = world, asked
            found: list[Any] = self._hub.switch()
            return found
        (answers,) = self._answers(self._posted([(world, asked)]))
        if isinstance(answers, BaseException):
            raise answers
        return answers

    # ---- rounds: what is asked at once

    def _posted(self, requests: Sequence[Request], asking: Sequence[greenlet] = ()) -> _Round:
        """Ask for what these worlds want to know."""
        made = _Round(requests, asking)
        self._post(made)
        return made

    def _post(self, asked: _Round) -> None:
        """Ask for all that is left of a round."""
        for place, items in asked.left.items():
            box = self._ready(place, {request: asked.requests[request][0] for request, _ in items}, asked.failed)
            items = [item for item in items if item[0] not in asked.failed]
            if box is not None and items:
                wanted = [asked.requests[request][1][number][1] for request, number in items]
                asked.posted.append((place, box, box.post(wanted, self._over.pop(place, ())), items))
        asked.left.clear()

    def _answers(self, asked: _Round) -> list[Answers]:
        """What comes of a round; what another world's trouble kept from being answered is asked again."""
        answers, failed = asked.answers, asked.failed
        while asked.posted:
            for place, box, posted, items in asked.posted:
                try:
                    told = box.answers(posted)
                except Lost as lost:
                    number = box.blamed(posted)
                    blamed = set() if number is None else {items[number][0]}
                    if lost.diagnosis.kind == "sandbox_violation":  # whose doing it was is not to be known
                        blamed = {request for request, _ in items}
                    failed.update((request, Lost(lost.diagnosis, broke=True)) for request in blamed)
                    asked.left[place] = [item for item in items if item[0] not in blamed]
                    continue
                for (request, number), answer in zip(items, told, strict=True):
                    if isinstance(answer, Lost):
                        failed.setdefault(request, answer)
                    answers[request][number] = answer
            asked.posted.clear()
            self._post(asked)
        for request, (world, wanted) in enumerate(asked.requests):
            for place, one in wanted if request not in failed else ():
                world.past[place].append(one)
        return [failed.get(request, found) for request, found in enumerate(answers)]

    def _ready(self, place: int, worlds: dict[int, World], failed: dict[int, BaseException]) -> Boxed | None:
        """The box at a place, with these worlds in it, by the number of their request; None where there is none, or no
        world that could go on."""
        while worlds := {request: world for request, world in worlds.items() if request not in failed}:
            try:
                box = self._box(place)
            except Lost as lost:
                failed.update((request, Lost(lost.diagnosis, broke=True)) for request in worlds)
                break
            except BoxFailed as error:
                failed.update(dict.fromkeys(worlds, error))
                break
            for request, world in worlds.items():
                try:
                    self._settle(box, place, world)
                except Lost as lost:
                    failed[request] = Lost(lost.diagnosis, broke=True)
            if box.lost is None or not box.loaded:
                return box
        return None

    @staticmethod
    def _settle(box: Boxed, place: int, world: World) -> None:
        """Have a world's nodes live again in a box, if it is not the one in which they lived."""
        if world.home.get(place) is box:
            return
        world.home[place] = box
        past = world.past[place]
        for begin in range(0, len(past), RELIVED):
            box.answers(box.post(past[begin : begin + RELIVED]))

    # ---- boxes

    def _box(self, place: int) -> Boxed:
        """The box at a place. Raises Lost where too many of them broke."""
        box = self._at.get(place)
        if box is not None and box.lost is not None and box.loaded:
            self._broken.append(box.lost)
            self._dismiss(place)
        if place not in self._at:
            if len(self._broken) >= MOST_ENDLESS:
                raise self._broken[-1]
            self._at[place] = Boxed(self._warm, self._code, self.watched, allowance=self._allowance)
        return self._at[place]

    def output(self) -> str:
        """What the nodes printed, for people."""
        self._keep_printed()
        return self._printed

    def _keep_printed(self) -> None:
        if 0 in self._at:
            printed = self._at[0].printed
            texts = {"printed": printed.text("stdout"), "wrote to stderr": printed.text("stderr")}
            told = "\n".join(f"nodes {did}:\n{text.rstrip()}" for did, text in texts.items() if text.strip())
            self._printed = told or self._printed

    def _dismiss(self, place: int) -> None:
        if place == 0:
            self._keep_printed()
        self._at.pop(place).close()
        self._over.pop(place, None)

    def close(self) -> None:
        """End the boxes."""
        for place in list(self._at):
            self._dismiss(place)
