"""An interview from its first question to its last, as a generator: it asks for what it needs and knows no screen.

    talk = Talk(tasks, minutes, clock)
    step = talk.start()
    while step is not None:
        step = talk.reply(...)      # what the learner did with it

The clock of the interview runs while the learner works (estimates, answers, follow-ups) and stands still while they
read: model answers and rubrics are not the interviewer's time. Nothing is cut off; being late is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from grader.quiz import units
from grader.quiz.interview.task import Done, Estimate, FollowUp, Guess, Task

Clock = Callable[[], float]  # seconds, that only grow
TRIES = 2  # at an estimate; the second is worth half


@dataclass(frozen=True)
class Place:
    """Where in the interview a step is."""

    task: Task
    at: int  # from 1
    of: int
    spent: float  # seconds of this task's time before this step
    spent_in_all: float
    minutes: float  # of the whole interview

    def left(self, here: float) -> tuple[float, float]:
        """Seconds left for the task and for the whole, `here` seconds into this step; below 0 when late."""
        return 60 * self.task.minutes - self.spent - here, 60 * self.minutes - self.spent_in_all - here


@dataclass(frozen=True)
class Work:
    """A number is asked for. Reply: what was typed ("" to give up), HINT, SKIP or QUIT."""

    place: Place
    estimate: Estimate
    at: int
    of: int
    said: str = ""  # about the last try
    hints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Worked:
    """A number was worked out, or not: show what is right. Reply: None, or QUIT."""

    place: Place
    estimate: Estimate
    guess: Guess


@dataclass(frozen=True)
class Write:
    """The answer is asked for. Reply: its text, HINT, SKIP or QUIT."""

    place: Place
    hints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rate:
    """The model answer beside the learner's. Reply: for each point whether the answer had it, or QUIT."""

    place: Place
    written: str
    seconds: float
    skipped: bool = False  # nothing to tick: any reply but QUIT goes on


@dataclass(frozen=True)
class Follow:
    """A follow-up. Reply: None where its answer is hidden; 0, 0.5 or 1 where it is shown and rated; or QUIT."""

    place: Place
    follow_up: FollowUp
    at: int
    of: int
    shown: bool = False


class Sign(Enum):
    """A reply that is no content."""

    HINT = "hint"
    SKIP = "skip"


@dataclass(frozen=True)
class Leave:
    """The learner leaves, in the middle of what is written so far."""

    written: str = ""


HINT, SKIP, QUIT = Sign.HINT, Sign.SKIP, Leave()

Step = Work | Worked | Write | Rate | Follow
Reply = str | float | tuple[bool, ...] | Sign | Leave | None


class _QuitError(Exception):
    """The learner left."""


@dataclass
class _Notes:
    """What is known of the task in progress."""

    seconds: float = 0.0
    written: str = ""
    rating: str = "unrated"
    ticked: tuple[bool, ...] = ()
    guesses: list[Guess] = field(default_factory=list)
    followed: list[float] = field(default_factory=list)
    hints: int = 0
    begun: bool = False  # something was answered: the task is worth keeping


class Talk:
    """One interview. `finished` is called with each task's outcome, before the next one begins."""

    def __init__(
        self, tasks: Sequence[Task], minutes: float, clock: Clock, finished: Callable[[Done], None] = lambda _: None
    ) -> None:
        self._tasks, self._minutes, self._clock, self._finished = tasks, minutes, clock, finished
        self._in_all = 0.0
        self._steps: Generator[Step, Reply, None] = self._run()

    def start(self) -> Step | None:
        """The first step, or None if there is none."""
        return next(self._steps, None)

    def reply(self, reply: Reply) -> Step | None:
        """What comes after this reply; None at the end."""
        try:
            return self._steps.send(reply)
        except StopIteration:
            return None

    def _run(self) -> Generator[Step, Reply, None]:
        for at, task in enumerate(self._tasks, start=1):
            notes = _Notes()
            try:
                yield from self._task(task, at, notes)
            except _QuitError as left:
                notes.written = notes.written or str(left).strip()
                if notes.begun or notes.written:
                    self._finished(_done(task, notes))
                return
            self._finished(_done(task, notes))

    def _task(self, task: Task, at: int, notes: _Notes) -> Generator[Step, Reply, None]:
        place = Place(task, at, len(self._tasks), 0.0, self._in_all, self._minutes)
        skipped = yield from self._numbers(place, notes)
        if not skipped:
            while True:
                reply = yield from self._timed(Write(self._now(place, notes), _hints(task, notes)), notes)
                if reply is not HINT:
                    break
                notes.hints = min(notes.hints + 1, len(task.hints))
            skipped = reply is SKIP
            notes.written = reply.strip() if isinstance(reply, str) else ""
        if skipped:
            notes.rating, notes.begun = "skipped", True
        else:
            notes.begun = notes.begun or bool(notes.written)
        reply = yield Rate(self._now(place, notes), notes.written, notes.seconds, skipped)
        _unless_quit(reply)
        if skipped:
            return
        assert isinstance(reply, tuple)
        notes.ticked, notes.rating, notes.begun = reply, "rated", True
        for number, follow_up in enumerate(task.follow_ups, start=1):
            step = Follow(self._now(place, notes), follow_up, number, len(task.follow_ups))
            yield from self._timed(step, notes)
            rated = yield replace(step, place=self._now(place, notes), shown=True)
            _unless_quit(rated)
            assert isinstance(rated, (int, float))
            notes.followed.append(float(rated))

    def _numbers(self, place: Place, notes: _Notes) -> Generator[Step, Reply, bool]:
        """Ask for the task's numbers. True if the task was skipped meanwhile."""
        task = place.task
        for number, estimate in enumerate(task.estimates, start=1):
            typed: list[str] = []
            said, earned = "", 0.0
            while True:
                step = Work(self._now(place, notes), estimate, number, len(task.estimates), said, _hints(task, notes))
                reply = yield from self._timed(step, notes)
                if reply is SKIP:
                    notes.guesses += [_guess(each, [], 0.0) for each in task.estimates[number - 1 :]]
                    return True
                if reply is HINT:
                    notes.hints = min(notes.hints + 1, len(task.hints))
                    continue
                assert isinstance(reply, str)
                if not reply.strip():
                    break
                try:
                    value = units.quantity(reply, estimate.unit)
                except ValueError as error:
                    said = str(error)
                    continue  # no try is lost
                typed.append(reply.strip())
                if abs(value - estimate.value) <= estimate.tolerance * abs(estimate.value):
                    earned = 1.0 if len(typed) == 1 else 0.5
                    break
                if len(typed) == TRIES:
                    break
                said = f"Not {reply.strip()}: that is {_off(value, estimate.value)}. One more try, for half a point."
            notes.guesses.append(_guess(estimate, typed, earned))
            notes.begun = True
            _unless_quit((yield Worked(self._now(place, notes), estimate, notes.guesses[-1])))
        return False

    def _timed(self, step: Step, notes: _Notes) -> Generator[Step, Reply, Reply]:
        since = self._clock()
        reply = yield step
        spent = max(0.0, self._clock() - since)
        notes.seconds += spent
        self._in_all += spent
        _unless_quit(reply)
        return reply

    def _now(self, place: Place, notes: _Notes) -> Place:
        return replace(place, spent=notes.seconds, spent_in_all=self._in_all)


def _unless_quit(reply: Reply) -> None:
    if isinstance(reply, Leave):
        raise _QuitError(reply.written)


def _hints(task: Task, notes: _Notes) -> tuple[str, ...]:
    return tuple(hint.text for hint in task.hints[: notes.hints])


def _off(value: float, right: float) -> str:
    if value <= 0 or right <= 0:
        return "not it"
    ratio = max(value / right, right / value)
    by = f"{ratio:.2g} times" if ratio < 1000 else "many orders of magnitude"
    return f"{by} too {'much' if value > right else 'little'}"


def _guess(estimate: Estimate, typed: Sequence[str], earned: float) -> Guess:
    return Guess(
        estimate.id, estimate.question, tuple(typed), f"{units.written(estimate.value)} {estimate.unit}", earned
    )


def _done(task: Task, notes: _Notes) -> Done:
    ticks = notes.ticked or (False,) * len(task.points)
    rated: list[float | None] = [*notes.followed, *[None] * (len(task.follow_ups) - len(notes.followed))]
    return Done(
        task.id, task.question, task.title, task.area, task.topic, task.level, task.prompt, task.minutes,
        round(notes.seconds, 3), notes.written, notes.rating, tuple(zip(task.points, ticks, strict=True)),
        tuple(notes.guesses), tuple((each.question, mark) for each, mark in zip(task.follow_ups, rated, strict=True)),
        sum(hint.cost for hint in task.hints[: notes.hints]), task.round,
    )  # fmt: skip
