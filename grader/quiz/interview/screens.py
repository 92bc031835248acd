"""An interview full-screen: one screen for each step, a clock at the top, the keys at the bottom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Input, Markdown, OptionList, Static, TextArea

from grader.quiz.interview.conduct import (
    HINT,
    QUIT,
    SKIP,
    Clock,
    Follow,
    Leave,
    Rate,
    Reply,
    Step,
    Talk,
    Work,
    Worked,
    Write,
)
from grader.quiz.interview.report import clock as minutes
from grader.quiz.screen.leaving import LeavableApp


def hold(talk: Talk, clock: Clock, plan: str) -> None:
    """Hold an interview in the terminal, to its end or until the learner leaves."""
    InterviewApp(talk, clock, plan).run()


class InterviewApp(LeavableApp):
    """Shows the steps of a talk, one after the other."""

    CSS_PATH = "screens.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 - Textual declares it so
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", "Quit and report", priority=True),
        Binding("ctrl+c", "leave", show=False, priority=True, system=True),
    ]

    def __init__(self, talk: Talk, clock: Clock, plan: str) -> None:
        super().__init__()
        self.talk, self.clock, self.plan = talk, clock, plan
        self.draft: tuple[str, str] = ("", "")  # a task's id, and what was written when a hint was asked for

    def on_mount(self) -> None:
        self._show(self.talk.start())

    def _show(self, step: Step | None) -> None:
        if step is None:
            self.exit()
        else:
            self.push_screen(_SCREENS[type(step)](step), self._replied)

    def _replied(self, reply: Reply) -> None:
        self._show(self.talk.reply(reply))

    def action_leave(self) -> None:
        """End the interview; what is being written is kept, unrated."""
        if isinstance(self.screen, StepScreen):
            self.screen.leave()


class StepScreen(Screen[Reply]):
    """One step: where it is and the clocks at the top, keys at the bottom."""

    app: InterviewApp

    def __init__(self, step: Any) -> None:
        super().__init__()
        self.step = step

    def compose(self) -> ComposeResult:
        with Horizontal(id="top"):
            yield Static(self._where(), id="where", markup=False)
            yield Static("", id="clock", markup=False)
        yield from self.body()
        yield Footer()

    def body(self) -> ComposeResult:
        raise NotImplementedError

    def on_mount(self) -> None:
        self.since = self.app.clock()
        self.tick()
        if self.ticks():
            self.set_interval(0.5, self.tick)

    def ticks(self) -> bool:
        """Whether the interview's clock runs in this step."""
        return isinstance(self.step, (Work, Write)) or (isinstance(self.step, Follow) and not self.step.shown)

    def tick(self) -> None:
        task, whole = self.step.place.left(self.app.clock() - self.since if self.ticks() else 0.0)
        shown = self.query_one("#clock", Static)
        rest = "" if self.ticks() else ", paused"
        shown.update(f"{left(task)} for this, {left(whole)} in all{rest}")
        shown.set_class(task < 0, "late")

    def leave(self) -> None:
        """End the interview here."""
        self.dismiss(QUIT)

    def hints(self) -> str:
        return "".join(f"\n\n**Hint.** {text}" for text in getattr(self.step, "hints", ()))

    def may_hint(self) -> bool:
        return len(self.step.hints) < len(self.step.place.task.hints)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.may_hint() if action == "hint" else True

    def _where(self) -> str:
        place = self.step.place
        task = place.task
        name = f"{task.round}: {task.title}" if task.round else f"{task.topic} ({task.level})"
        return f"{place.at} of {place.of}  {name}"


class WriteScreen(StepScreen):
    """The prompt, and room for the answer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "done", "Done", priority=True),
        Binding("ctrl+t", "hint", "Hint", priority=True),
        Binding("ctrl+n", "skip", "Skip", priority=True),
    ]

    def body(self) -> ComposeResult:
        task = self.step.place.task
        text = task.prompt + self.hints()
        if self.step.place.at == 1 and not self.step.place.spent:
            text = f"*Mock interview, {self.app.plan}*\n\n{text}"
        with VerticalScroll(id="prompt", can_focus=False):
            yield Markdown(text)
        draft = self.app.draft[1] if self.app.draft[0] == task.id else ""
        yield TextArea(
            draft, id="answer", soft_wrap=True, placeholder="Write what you would say. Ctrl+S when you are done."
        )

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(TextArea).focus()

    def action_done(self) -> None:
        self._settled(lambda text: self.dismiss(text))

    def action_skip(self) -> None:
        self.dismiss(SKIP)

    def action_hint(self) -> None:
        def ask(text: str) -> None:
            self.app.draft = (self.step.place.task.id, text)
            self.dismiss(HINT)

        self._settled(ask)

    def leave(self) -> None:
        self._settled(lambda text: self.dismiss(Leave(text)))

    def _settled(self, act: Callable[[str], object]) -> None:
        """Act on the text once every key typed before is in it: they wait in the area's own queue."""
        area = self.query_one(TextArea)

        def settled() -> None:  # returns nothing: what it returned would be awaited, and never come
            act(area.text)

        area.call_later(settled)


class WorkScreen(StepScreen):
    """A number to work out."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+t", "hint", "Hint", priority=True),
        Binding("ctrl+n", "skip", "Skip the stage", priority=True),
    ]

    def body(self) -> ComposeResult:
        step: Work = self.step
        with VerticalScroll(id="prompt", can_focus=False):
            yield Markdown(step.place.task.prompt + self.hints())
        yield Static(f"Number {step.at} of {step.of}", classes="title", markup=False)
        with VerticalScroll(id="number", can_focus=False):
            yield Markdown(step.estimate.question)
        yield Static(step.said, id="said", markup=False)
        yield Input(placeholder=f"in {step.estimate.unit}; Enter alone if you do not know", id="typed")

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _typed(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def action_skip(self) -> None:
        self.dismiss(SKIP)

    def action_hint(self) -> None:
        self.dismiss(HINT)


class WorkedScreen(StepScreen):
    """What is right, and how it is worked out."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "on", "Go on")]

    def body(self) -> ComposeResult:
        guess, estimate = self.step.guess, self.step.estimate
        said = {1.0: "Right", 0.5: "Right at the second try, half a point"}.get(guess.earned, "Not found")
        with VerticalScroll(id="shown"):
            yield Markdown(estimate.question)
            yield Static(f"{said}: it is {guess.right}.", classes="good" if guess.earned else "bad", markup=False)
            yield Markdown(estimate.explanation)

    def action_on(self) -> None:
        self.dismiss(None)


class RateScreen(StepScreen):
    """The model answer beside the learner's, and the rubric to tick."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "on", "Go on", priority=True),
        Binding("space", "tick", "Tick", priority=True),
        Binding("down,j", "move(1)", show=False, priority=True),  # as soon as space: else it overtakes them
        Binding("up,k", "move(-1)", show=False, priority=True),
        *(Binding(str(digit), f"mark({digit})", show=False, priority=True) for digit in range(1, 10)),
        Binding("pagedown", "scroll(1)", "Scroll", priority=True),
        Binding("pageup", "scroll(-1)", show=False, priority=True),
    ]

    def body(self) -> ComposeResult:
        step: Rate = self.step
        task = step.place.task
        with Horizontal(id="sides"):
            with VerticalScroll(id="mine", can_focus=False):
                over = step.seconds - 60 * task.minutes
                late = f", {minutes(over)} over its {task.minutes:g} minutes" if over > 0 else ""
                title = "Skipped" if step.skipped else f"Your answer, in {minutes(step.seconds)}{late}"
                yield Static(title, classes="title", markup=False)
                yield Static(step.written or "Nothing.", markup=False)
            with VerticalScroll(id="model", can_focus=False):
                yield Static("What a strong candidate says", classes="title")
                wrong = "".join(f"\n- {mistake}" for mistake in task.mistakes)
                yield Markdown(task.answer + (f"\n\n**Often said, and wrong**\n{wrong}" if wrong else ""))
        yield Static(
            "What an interviewer listens for"
            + ("" if step.skipped else ": tick what you said, with space or its number"),
            classes="title",
        )
        self.ticked = [False] * len(task.points)
        yield OptionList(*map(self._point, range(len(task.points))), id="points", markup=False, disabled=step.skipped)

    def on_mount(self) -> None:
        super().on_mount()
        points = self.query_one(OptionList)
        points.focus()
        points.highlighted = None if self.step.skipped else 0

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not self.step.skipped if action in ("tick", "mark", "move") else True

    def action_tick(self) -> None:
        if (at := self.query_one(OptionList).highlighted) is not None:
            self.action_mark(at + 1)

    def action_move(self, lines: int) -> None:
        points = self.query_one(OptionList)
        points.action_cursor_down() if lines > 0 else points.action_cursor_up()

    def action_mark(self, number: int) -> None:
        if number <= len(self.ticked):
            self.ticked[number - 1] = not self.ticked[number - 1]
            points = self.query_one(OptionList)
            points.replace_option_prompt_at_index(number - 1, self._point(number - 1))
            points.highlighted = number - 1

    def _point(self, at: int) -> str:
        """A point of the rubric as its line, readable without colours."""
        said = "" if self.step.skipped else "[x] " if self.ticked[at] else "[ ] "
        return f"{said}{at + 1}. {_bare(self.step.place.task.points[at])}"

    def action_scroll(self, pages: int) -> None:
        for side in self.query("#mine, #model").results(VerticalScroll):
            side.scroll_relative(y=pages * max(1, side.size.height - 2), animate=False)

    def action_on(self) -> None:
        self.dismiss(None if self.step.skipped else tuple(self.ticked))


class FollowScreen(StepScreen):
    """A follow-up, and then its answer to be rated."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "reveal", "Show the answer"),
        Binding("0", "rate(0)", "Missed it"),
        Binding("1", "rate(1)", "Partly"),
        Binding("2", "rate(2)", "Had it"),
    ]

    def body(self) -> ComposeResult:
        step: Follow = self.step
        with VerticalScroll(id="shown"):
            yield Static(f"Follow-up {step.at} of {step.of}: say it aloud", classes="title", markup=False)
            yield Markdown(step.follow_up.question)
            if step.shown:
                yield Static("Answer", classes="title")
                yield Markdown(step.follow_up.answer)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("reveal", "rate"):
            return bool((action == "rate") == self.step.shown)
        return True

    def action_reveal(self) -> None:
        self.dismiss(None)

    def action_rate(self, mark: int) -> None:
        self.dismiss(mark / 2)


_SCREENS: dict[type, type[StepScreen]] = {
    Write: WriteScreen, Work: WorkScreen, Worked: WorkedScreen, Rate: RateScreen, Follow: FollowScreen,
}  # fmt: skip


def left(seconds: float) -> str:
    """Time that is left, or how far it is over."""
    return minutes(seconds) if seconds >= 0 else f"{minutes(-seconds)} over"


def _bare(text: str) -> str:
    """A rubric's point without Markdown's marks, for a list that shows plain text."""
    return text.replace("**", "").replace("`", "")
