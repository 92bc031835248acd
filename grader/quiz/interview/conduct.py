"""An interview from its first question to its last, as steps that know no terminal.

The clock of the interview runs while the learner works (estimates, answers, follow-ups) and stands still while they
read: model answers and rubrics are not the interviewer's time. Nothing is cut off; being late is noted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace

from grader.quiz import asking, units
from grader.quiz.interview import mentioned, rubric
from grader.quiz.interview.task import Done, Estimate, Guess, Task, Ticked
from grader.quiz.steps import Command, Do, Drawn, QuitError, Reply, Step, Steps, Text, minutes

Clock = Callable[[], float]  # seconds, that only grow
TRIES = 2  # at an estimate; the second is worth half

_FACTORS = ((2, "below 2"), (10, "of 2 to 10"), (1000, "of 10 to 1,000"), (math.inf, "of 1,000 or more"))
_HINT, _SKIP = Command("h", "hint", "ctrl+t"), Command("s", "skip", "ctrl+n")
_QUIT = Command("q", "quit and report", "ctrl+q")
_RATINGS = {"0": "missed it", "1": "partly", "2": "had it"}


@dataclass
class _Notes:
    """What is known of the task in progress."""

    task: Task
    title: str
    page: tuple[Text, ...]
    seconds: float = 0.0
    written: str = ""
    rating: str = "unrated"
    ticked: tuple[bool, ...] = ()
    guesses: list[Guess] = field(default_factory=list)
    followed: list[float] = field(default_factory=list)
    hints: int = 0
    begun: bool = False  # something was answered: the task is worth keeping

    def step(self, *page: Text | Drawn) -> Step:
        return Step(self.title, page, commands=(_QUIT,))

    def working(self, *page: Text) -> Step:
        """A step in which a hint may be asked for, and the task be skipped."""
        hints = [f"**Hint.** {hint.text}" for hint in self.task.hints[: self.hints]]
        more = (_HINT,) if self.hints < len(self.task.hints) else ()
        shown = (*self.page, *map(Text, hints), *page)
        return replace(self.step(*shown), commands=(*more, _SKIP, _QUIT))

    def keys(self) -> str:
        """The commands of such a step, for a prompt."""
        left = self.task.hints[self.hints :]
        return f"{f'h hint, {left[0].cost:g} off; ' if left else ''}s skips; q quits"

    def hint(self) -> None:
        self.hints = min(self.hints + 1, len(self.task.hints))

    def done(self) -> Done:
        task = self.task
        ticks = self.ticked or (False,) * len(task.points)
        rated: list[float | None] = [*self.followed, *[None] * (len(task.follow_ups) - len(self.followed))]
        return Done(
            task.id, task.question, task.title, task.area, task.topic, task.level, task.prompt, task.minutes,
            round(self.seconds, 3), self.written, self.rating,
            tuple(
                Ticked(each.text, had, each.level, each.weight) for each, had in zip(task.points, ticks, strict=True)
            ),
            tuple(self.guesses),
            tuple((each.question, mark) for each, mark in zip(task.follow_ups, rated, strict=True)),
            sum(hint.cost for hint in task.hints[: self.hints]), task.round,
        )  # fmt: skip


class Talk:
    """One interview, about which `plan` is said first.

    `finished` is called with each task's outcome, before the next one begins.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        minutes: float,
        clock: Clock,
        finished: Callable[[Done], None] = lambda _: None,
        plan: str = "",
    ) -> None:
        self._tasks, self._minutes, self._clock, self._finished = tasks, minutes, clock, finished
        self._plan = (Text(f"Mock interview, {plan}", "title"),) if plan else ()
        self._in_all = 0.0

    def steps(self) -> Steps:
        for at, task in enumerate(self._tasks, start=1):
            name = f"{task.round}: {task.title}" if task.round else f"{task.topic} ({task.level})"
            title = f"{at} of {len(self._tasks)}  {name}  {task.minutes:g} minutes"
            notes = _Notes(task, title, (*(self._plan if at == 1 else ()), Text(task.prompt)))
            try:
                yield from self._task(notes)
            except QuitError as left:
                notes.written = notes.written or str(left).strip()
                if notes.begun or notes.written:
                    self._finished(notes.done())
                return
            self._finished(notes.done())

    def _task(self, notes: _Notes) -> Steps:
        skipped = yield from self._numbers(notes)
        if not skipped:
            skipped = yield from self._answer(notes)
        if skipped:
            notes.rating, notes.begun = "skipped", True
        else:
            notes.begun = notes.begun or bool(notes.written)
        yield from self._rubric(notes, skipped)
        if not skipped:
            yield from self._follow_ups(notes)

    def _numbers(self, notes: _Notes) -> Generator[Step, Reply | None, bool]:
        """Ask for the task's numbers. True if the task was skipped meanwhile."""
        estimates = notes.task.estimates
        for number, estimate in enumerate(estimates, start=1):
            asked = Text(f"Number {number} of {len(estimates)}", "title"), Text(estimate.question)
            typed: list[str] = []
            said, earned, sure = "", 0.0, False
            while True:
                step = replace(
                    notes.working(*asked),
                    asks="line",
                    prompt=f"In {estimate.unit} ({notes.keys()}; Enter twice if you do not know): ",
                    hint=f"in {estimate.unit}; enter twice if you do not know",
                    said=said,
                )
                reply = yield from self._ask(step, notes)
                if isinstance(reply, Do) and reply.letter == "s":
                    notes.guesses += [_guess(each, [], 0.0) for each in estimates[number - 1 :]]
                    return True
                if isinstance(reply, Do):
                    notes.hint()
                    continue
                if not reply.strip():
                    if sure:
                        break
                    said, sure = "Press Enter once more if you do not know.", True
                    continue
                sure = False
                try:
                    value = units.answer(reply, estimate)
                except ValueError as error:
                    said = str(error)
                    continue  # no try is lost
                typed.append(reply.strip())
                if estimate.accepts(value):
                    earned = 1.0 if len(typed) == 1 else 0.5
                    break
                if len(typed) == TRIES:
                    break
                said = f"Not {reply.strip()}: {_off(value, estimate.value)}. You have one more try, for half a point."
            guess = _guess(estimate, typed, earned)
            notes.guesses.append(guess)
            notes.begun = True
            told = {1.0: "Right", 0.5: "Right on the second try, half a point"}.get(earned, "Not found")
            verdict = Text(f"{told}: it is {guess.right}.", "good" if earned else "bad")
            shown = (*notes.working(*asked).page, verdict, Text(estimate.explanation))
            yield from self._ask(replace(notes.step(*shown), asks="look", hint="enter goes on"), notes, paused=True)
        return False

    def _answer(self, notes: _Notes) -> Generator[Step, Reply | None, bool]:
        """Ask for the answer. True if the task was skipped."""
        while True:
            prompt = f"Write your answer; a line with a single . ends it ({notes.keys()}, alone on the first line)."
            step = replace(notes.working(), asks="lines", prompt=prompt, hint="ctrl+s done")
            if notes.task.spoken:
                aloud = f"Say your answer aloud, in {60 * notes.task.minutes:g} seconds; then a bell rings. "
                prompt = f"{aloud}Enter when you are done ({notes.keys()}): "
                step = replace(step, asks="read", prompt=prompt, hint="say your answer aloud; enter when you are done")
            reply = yield from self._ask(step, notes)
            if isinstance(reply, str):
                notes.written = reply.strip()
            elif reply.letter == "h":
                notes.hint()
                continue
            notes.begun = notes.begun or notes.task.spoken
            return isinstance(reply, Do)

    def _rubric(self, notes: _Notes, skipped: bool) -> Steps:
        """The model answer beside the learner's, and the rubric to tick."""
        task, late = notes.task, notes.seconds - 60 * notes.task.minutes
        over = f", {minutes(late)} over its {task.minutes:g} minutes" if late > 0 else ""
        page = [Text("Skipped." if skipped else f"That took {minutes(notes.seconds)}{over}.", "dim")]
        page += [Text("What a strong candidate says", "title"), Text(task.answer)]
        if task.mistakes:
            page += [Text("Often said, and wrong", "title"), Text("\n".join(f"- {each}" for each in task.mistakes))]
        page.append(Text("What an interviewer listens for", "title"))
        if skipped:
            step = replace(
                notes.step(*page, Text(rubric.listed(task.points))),
                prompt="Enter goes on, q quits: ",
                hint="enter goes on",
            )
            yield from self._ask(step, notes, paused=True)
            return
        items = tuple(
            f"{rubric.tagged(each, task.level)}{mentioned.said(each.text, notes.written)}" for each in task.points
        )
        step = replace(
            notes.step(*page), asks="pick", items=items, mine="" if task.spoken else notes.written or "Nothing.",
            prompt="Which did you say? Numbers like 1 3, a for all, or Enter for none (q quits): ",
            hint="space or its number ticks what you said, enter goes on",
        )  # fmt: skip
        while True:
            reply = yield from self._ask(step, notes, paused=True)
            typed, count = str(reply).strip().lower(), len(task.points)
            try:
                picked = range(1, count + 1) if typed == "a" else asking.numbers(typed, count) if typed else ()
                break
            except asking.UnreadableError as error:
                step = replace(step, said=str(error))
        notes.ticked = tuple(at in picked for at in range(1, count + 1))
        notes.rating, notes.begun = "rated", True

    def _follow_ups(self, notes: _Notes) -> Steps:
        follow_ups = notes.task.follow_ups
        for number, each in enumerate(follow_ups, start=1):
            asked = Text(f"Follow-up {number} of {len(follow_ups)}", "title"), Text(each.question)
            said = "Say your answer aloud; then Enter shows the answer (q quits): "
            step = replace(notes.step(*asked), prompt=said, hint="say your answer aloud; then enter shows the answer")
            yield from self._ask(step, notes)
            step = replace(
                notes.step(*asked, Text("Answer", "title"), Text(each.answer)), asks="rate", choices=_RATINGS,
                prompt="0 missed it  1 partly  2 had it  q quit: ",
            )  # fmt: skip
            reply = yield from self._ask(step, notes, paused=True)
            notes.followed.append(int(str(reply)) / 2)

    def _ask(self, step: Step, notes: _Notes, *, paused: bool = False) -> Generator[Step, Reply | None, Reply]:
        """Show a step, with the clocks, which run unless they are paused. Raises QuitError."""
        since = self._clock()
        task, whole = 60 * notes.task.minutes - notes.seconds, 60 * self._minutes - self._in_all

        def here() -> float:
            return 0.0 if paused else max(0.0, self._clock() - since)

        reply = yield replace(step, left=lambda: (task - here(), whole - here()), paused=paused)
        spent = here()
        notes.seconds += spent
        self._in_all += spent
        if isinstance(reply, Do) and reply.letter == "q":
            raise QuitError(reply.text)
        return reply or ""


def _off(value: float, right: float) -> str:
    """How far off a number is, so roughly that it does not tell the right one."""
    if value <= 0 or right <= 0:
        return "that is not it"
    ratio = max(value / right, right / value)
    by = next(said for most, said in _FACTORS if ratio < most)
    return f"that is too {'large' if value > right else 'small'}, by a factor {by}"


def _guess(estimate: Estimate, typed: Sequence[str], earned: float) -> Guess:
    right = f"{units.written(estimate.value)} {estimate.unit}"
    return Guess(estimate.id, estimate.question, tuple(typed), right, earned)
