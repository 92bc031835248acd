"""A session on the full screen: one screen that shows step after step, for cards and interviews."""

from __future__ import annotations

import inspect
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import ClassVar

from textual import events, on
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Markdown, Static, TextArea

from grader.quiz.deck import DeckError
from grader.quiz.screen.boxes import ChoiceBox, ItemsBox, LongField, OrderBox
from grader.quiz.steps import Command, Do, Drawn, Reply, Step, Steps, Text, advance, time_left


class StepApp(App[None]):
    """Shows the steps of a talk until it ends, or the learner leaves."""

    CSS_PATH = "style.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 - Textual declares it so
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", priority=True),
        Binding("ctrl+c", "leave", show=False, priority=True, system=True),
    ]

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps
        self.trouble: DeckError | None = None  # what ended the session
        self._lent = self._ending = False
        self._left = Do("q")

    def hold(self) -> None:
        """Take the terminal until the end. Raises DeckError, once the terminal is given back."""
        with _ended_by_signals(self):
            self.run()
        self.finish()

    def finish(self) -> None:
        """Tell the talk that the learner left, if it does not know."""
        if self.trouble is not None:
            raise self.trouble
        if inspect.getgeneratorstate(self.steps) == inspect.GEN_SUSPENDED:
            while advance(self.steps, self._left) is not None:
                pass

    def on_mount(self) -> None:
        if self._ending:
            self.exit()
        else:
            self.push_screen(StepScreen(self.steps))

    def action_leave(self) -> None:
        """End, once every key typed before has come where it belongs: they wait in the field's own queue."""
        (self.focused or self.screen).call_later(self._leave)

    def _leave(self) -> None:  # returns nothing: what it returned would be awaited, and never come
        for screen in self.screen_stack:
            if isinstance(screen, StepScreen):
                self._left = Do("q", screen.written())
        self.exit()

    def end_soon(self, *, interrupted: bool) -> None:
        """End at the next moment; from a signal's handler. Ctrl-C in an editor is for the editor."""
        if interrupted and self._lent:
            return
        self._ending = True
        if self._loop is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self.exit)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """The terminal is another program's. Raises SuspendNotSupported."""
        self._lent = True
        try:
            with self.suspend():
                yield
        finally:
            self._lent = False

    def _handle_exception(self, error: Exception) -> None:
        """Textual takes a screen's parts away on leaving, also from a screen that is still setting them up.

        What that screen then does not find is nobody's mistake: no traceback, no exit status of it.
        """
        if not self._exit:
            super()._handle_exception(error)


@contextmanager
def _ended_by_signals(app: StepApp) -> Iterator[None]:
    """While the screen is ours, SIGTERM and SIGINT end the app, which gives the terminal back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: FrameType | None) -> None:
        app.end_soon(interrupted=number == signal.SIGINT)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Choice(Static):
    """One of the answers to a step that is rated."""

    class Pressed(Message):
        def __init__(self, choice: str) -> None:
            super().__init__()
            self.choice = choice

    def __init__(self, choice: str) -> None:
        super().__init__(id=f"choice-{choice}", markup=False)
        self.choice = choice

    def on_click(self) -> None:
        self.post_message(self.Pressed(self.choice))


class DrawnLines(Static):
    """Lines that are drawn for the width there is."""

    def __init__(self, drawn: Drawn) -> None:
        super().__init__(markup=False)
        self._drawn = drawn

    def on_resize(self) -> None:
        self.update("\n".join(self._drawn.draw(min(self.size.width, 100))))


def _shown(block: Text | Drawn) -> Widget:
    if isinstance(block, Drawn):
        return DrawnLines(block)
    if block.look == "markdown":
        return Markdown(block.text, open_links=False)
    return Static(block.text, classes=block.look, markup=False)


class LookScreen(Screen[Reply]):
    """Something to look at, until a key is pressed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,space,enter,q,t,question_mark", "dismiss('')", show=False)]

    def __init__(self, step: Step) -> None:
        super().__init__()
        self._step = step

    def compose(self) -> ComposeResult:
        yield Static(self._step.title, classes="bar")
        with VerticalScroll(classes="page"):
            yield from map(_shown, self._step.page)
        yield Static("up/down scroll  esc back", classes="keys")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()


class StepScreen(Screen[None]):
    """The step that is in turn. What it has in common with the one before stays as it is, with what was typed."""

    app: StepApp

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps, self.step = steps, Step("", ())
        self._rung = ""  # the title of what the bell rang for last

    def compose(self) -> ComposeResult:
        with Horizontal(id="top"):
            yield Static(id="where", classes="bar", markup=False)
            yield Static(id="clock", markup=False)
        with Horizontal(id="sides"):
            with VerticalScroll(id="mine", can_focus=False):
                yield Static("What you wrote", classes="title")
                yield Static(id="written", markup=False)
            yield VerticalScroll(id="page", classes="page")
        yield VerticalScroll(id="field", can_focus=False)
        yield Static(id="said", markup=False)
        yield Horizontal(id="choices")
        yield Static(id="keys", classes="keys", markup=False)

    async def on_mount(self) -> None:
        self.set_interval(0.5, self.tick)
        await self.reply(None)

    async def reply(self, reply: Reply | None) -> None:
        """Go on to the step after this reply."""
        try:
            step = advance(self.steps, reply)
        except DeckError as error:
            self.app.trouble, step = error, None
        if step is None:
            self.app.exit()
        elif step.asks == "choose":
            from grader.quiz.screen.choose import ChooseScreen

            self.app.push_screen(ChooseScreen(step.desk), self.reply)
        elif step.asks == "look" and step.title != self.step.title:
            self.app.push_screen(LookScreen(step), self.reply)
        else:
            await self._show(step)

    async def _show(self, step: Step) -> None:
        last, self.step = self.step, step
        same = step.title == last.title
        self.query_one("#where", Static).update(step.title)
        self.query_one("#mine").set_class(bool(step.mine), "shown")
        self.query_one("#written", Static).update(step.mine)
        await self._show_field(step, last if same else Step("", ()))
        await self._show_choices(step)
        self.tell(step.said)
        self.show_keys()
        self.tick()
        await self._show_page(step, last.page if same else ())

    async def _show_page(self, step: Step, before: tuple[Text | Drawn, ...]) -> None:
        page, known = self.query_one("#page", VerticalScroll), 0
        while known < min(len(before), len(step.page)) and before[known] == step.page[known]:
            known += 1
        await page.remove_children(page.children[known:])
        fresh = [_shown(block) for block in step.page[known:]]
        await page.mount(*fresh)
        if known and fresh:
            self.call_after_refresh(page.scroll_to_widget, fresh[0], animate=False, top=True)
        elif not known:
            page.scroll_home(animate=False)
        self.call_after_refresh(self.draw_near)

    @on(events.Resize)
    def draw_near(self) -> None:
        """Where something is typed or picked below a page that is short, begin right below it."""
        page, sides = self.query_one("#page"), self.query_one("#sides")
        sides.styles.height = "1fr"
        if self.step.asks in ("line", "pick") and not self.step.mine:
            needed = sum(child.outer_size.height for child in page.children)
            if needed + 1 < self.size.height // 2:
                sides.styles.height = needed + 1

    async def _show_field(self, step: Step, before: Step) -> None:
        """What is typed into or picked from; kept while the same is asked, and items after they were picked."""
        field = self.query_one("#field")
        asked = step.items or step.asks in ("line", "lines")
        if not (
            asked and (step.items, bool(step.items) or step.asks) == (before.items, bool(before.items) or before.asks)
        ):
            await field.remove_children()
            if step.items:
                order = step.how == "order"
                await field.mount(OrderBox(step.items) if order else ChoiceBox(step.items, step.how == "many"))
            elif step.asks == "line":
                await field.mount(Input(id="typed"))
            elif step.asks == "lines":
                await field.mount(LongField(id="typed", soft_wrap=True))
        for box in field.query(ItemsBox):
            box.done = step.asks != "pick"
        if step.asks in ("line", "lines", "pick"):
            field.children[0].focus()
        else:
            self.query_one("#page").focus()

    async def _show_choices(self, step: Step) -> None:
        row = self.query_one("#choices")
        row.set_class(step.asks == "rate", "shown")
        if step.asks == "rate" and [each.choice for each in row.query(Choice)] != list(step.choices):
            await row.remove_children()
            await row.mount(*map(Choice, step.choices))
        for choice, label in step.choices.items():
            mark = "> " if choice == step.suggested else ""
            button = self.query_one(f"#choice-{choice}", Choice)
            button.update(f"{mark}{choice} {label}")
            button.set_class(bool(mark), "suggested")

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def show_keys(self) -> None:
        """Say at the bottom which keys do what: where letters are typed as text, they are no commands."""
        typing = isinstance(self.focused, Input | TextArea)
        known = [each for each in self.step.commands if each.label and (each.key or not typing)]
        keys = [f"{each.key or each.letter} {each.label}" for each in known]
        if typing and len(known) < sum(bool(each.label) for each in self.step.commands):
            keys.append("esc commands")
        self.query_one("#keys", Static).update("  ".join(filter(None, [self.step.hint, *keys])))

    def tell(self, said: str) -> None:
        """Say one sentence below what is asked."""
        self.query_one("#said", Static).update(said)

    def tick(self) -> None:
        clock = self.query_one("#clock", Static)
        clock.update(time_left(self.step))
        late = self.step.left is not None and self.step.left()[0] < 0
        clock.set_class(late, "late")
        if late and not self.step.paused and self._rung != self.step.title:
            self._rung = self.step.title  # once for each question
            self.app.bell()

    def written(self) -> str:
        """What is in the field for long answers."""
        return next((area.text for area in self.query(TextArea)), "")

    @on(Input.Submitted)
    async def _typed(self, event: Input.Submitted) -> None:
        await self.reply(event.value)
        if self.step.said:
            event.input.select_all()  # it was refused: it can be corrected, or typed over
        else:
            event.input.value = ""

    @on(ItemsBox.Submitted)
    async def _picked(self, event: ItemsBox.Submitted) -> None:
        if self.step.asks == "pick":
            await self.reply(event.typed)

    @on(Choice.Pressed)
    async def _pressed(self, event: Choice.Pressed) -> None:
        if self.step.asks == "rate":
            await self.reply(event.choice)

    async def on_key(self, event: events.Key) -> None:
        """The keys that are not the field's own; it stands before them, and so keeps their order."""
        step, key = self.step, event.key
        for command in step.commands:
            if not command.number and (key == command.key if command.key else event.character == command.letter):
                event.stop()
                await self._do(command)
                return
        if step.asks == "rate" and (key in step.choices or (key in ("enter", "space") and step.suggested)):
            await self.reply(key if key in step.choices else step.suggested)
        elif step.asks in ("read", "look") and key in ("enter", "space"):
            await self.reply("")
        elif step.asks == "lines" and key == "ctrl+s":
            await self.reply(self.written())
        elif step.asks in ("line", "pick") and key == "escape":
            self.query_one("#page").focus()
            self.tell("The keys are commands now; enter goes back to the answer.")
        elif step.asks in ("line", "lines", "pick") and key == "enter":
            self.query_one("#field").children[0].focus()

    async def _do(self, command: Command) -> None:
        try:
            with self.app.lent() if command.lends else nullcontext():
                await self.reply(Do(command.letter, self.written()))
        except SuspendNotSupported:
            self.tell("The editor cannot be shown on this terminal.")
