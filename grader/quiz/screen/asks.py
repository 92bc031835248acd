"""The screen that asks: a card's question, then what was typed held against it, its answer, and the four ratings."""

from __future__ import annotations

from textual import events, on, work
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input, Markdown, Static

from grader.quiz import asking, editor, words
from grader.quiz.deck import Card, DeckError
from grader.quiz.schedule import AGAIN, RATINGS
from grader.quiz.screen.boxes import ChoiceBox, ItemsBox, OrderBox
from grader.quiz.screen.desk import Desk
from grader.quiz.sitting import Sitting

_HOW = {
    "choice": "numbers tick, enter checks",
    "order": "shift+up/down or numbers order, enter checks",
    "number": "enter checks, esc leaves the field",
    "bug": "enter checks, esc leaves the field",
    "diagram": "space shows the answer, o opens the picture",
}


class Rating(Static):
    """One of the four ratings, with the wait that it leads to."""

    class Pressed(Message):
        def __init__(self, rating: int) -> None:
            super().__init__()
            self.rating = rating

    def __init__(self, rating: int) -> None:
        super().__init__(id=f"rate-{rating}", markup=False)
        self._rating = rating

    def on_click(self) -> None:
        self.post_message(self.Pressed(self._rating))


class AskScreen(Screen[None]):
    """Asks one card after the other, until none is left."""

    BINDINGS = [  # noqa: RUF012
        Binding("space", "show", show=False),
        Binding("enter", "show", show=False),
        *(Binding(str(rating), f"rate({rating})", show=False) for rating in RATINGS),
        Binding("u", "undo", show=False),
        Binding("b", "aside('bury')", show=False),
        Binding("s", "aside('suspend')", show=False),
        Binding("e", "edit", show=False),
        Binding("o", "open_picture", show=False),
        Binding("escape", "leave_field", show=False),
    ]

    def __init__(self, desk: Desk, sitting: Sitting) -> None:
        super().__init__()
        self.desk, self.sitting = desk, sitting
        self.answered = False
        self._suggested: int | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="about", classes="bar", markup=False)
        with VerticalScroll(id="card", classes="page"):
            yield Markdown(id="question", open_links=False)
            yield Vertical(id="box")
            yield Input(id="typed")
            yield Static(id="verdict", markup=False)
            yield Markdown(id="answer", open_links=False)
        with Horizontal(id="ratings"):
            for rating in RATINGS:
                yield Rating(rating)
        yield Static(id="status", classes="status", markup=False)
        yield Static(id="keys", classes="keys", markup=False)

    async def on_mount(self) -> None:
        await self.ask()

    def card(self) -> Card:
        assert self.sitting.turn is not None
        return self.sitting.turn.card

    async def ask(self, said: str = "") -> None:
        """Show the question of the card in turn, or leave when there is none."""
        turn = self.sitting.turn
        if turn is None:
            self.dismiss(None)
            return
        card, self.answered, self._suggested = turn.card, False, None
        about = (f"{turn.place} of {turn.of}", card.deck, card.topic, card.level, *(("new",) if turn.new else ()))
        self.query_one("#about", Static).update(" | ".join(about))
        for name in ("#verdict", "#answer", "#ratings", "#typed"):
            self.query_one(name).remove_class("shown")
        await self.query_one("#question", Markdown).update(asking.question(card))
        box = self.query_one("#box")
        await box.remove_children()
        self.tell(said)
        page = self.query_one("#card")
        if card.kind in ("choice", "order"):
            kind = ChoiceBox if card.kind == "choice" else OrderBox
            items = kind(asking.shown(card, turn.order), sum(option.right for option in card.options) > 1)
            await box.mount(items)
            items.focus()
        elif asking.is_typed(card):
            field = self.query_one("#typed", Input)
            field.value, field.disabled, field.placeholder = "", False, asking.prompt(card)
            field.add_class("shown")
            field.focus()
        else:
            page.focus()
        page.scroll_home(animate=False)
        self._say_keys()

    def tell(self, said: str) -> None:
        """Say one sentence below the card."""
        self.query_one("#status", Static).update(said)

    def _say_keys(self) -> None:
        if self.answered:
            first = "1-4 rate" + (", enter as suggested" if self._suggested else "")
        else:
            first = _HOW.get(self.card().kind, "space shows the answer")
        self.query_one("#keys", Static).update(f"{first}  ? help  q quit")

    async def _answer(self, said: str = "", suggested: int | None = None) -> None:
        """Show the answer, with what is to be said of what was typed."""
        self.answered, self._suggested = True, suggested
        verdict, answer = self.query_one("#verdict", Static), self.query_one("#answer", Markdown)
        verdict.update(said)
        verdict.set_class(bool(said), "shown")
        await answer.update(self.card().answer)
        answer.add_class("shown")
        waits = self.sitting.intervals()
        for rating, name in RATINGS.items():
            button = self.query_one(f"#rate-{rating}", Rating)
            mark = "> " if rating == suggested else ""
            button.update(f"{mark}{rating} {name}\n{words.short(waits[rating])}")
            button.set_class(rating == suggested, "suggested")
        self.query_one("#ratings").add_class("shown")
        self.query_one("#typed", Input).disabled = True
        for box in self.query(ItemsBox):
            box.done = True
        page = self.query_one("#card", VerticalScroll)
        page.focus()
        self.tell("")
        self._say_keys()
        self.call_after_refresh(page.scroll_to_widget, verdict if said else answer, animate=False, top=True)

    async def _check(self, typed: str) -> None:
        turn = self.sitting.turn
        assert turn is not None
        if not typed.strip():
            await self._answer(asking.judge_nothing(turn.card, turn.order), AGAIN)
            return
        try:
            judged = asking.judge(turn.card, typed, turn.order)
        except asking.UnreadableError as error:
            self.tell(str(error))
            return
        await self._answer(judged.said, judged.rating)

    @on(Input.Submitted)
    async def _typed(self, event: Input.Submitted) -> None:
        event.stop()
        if not self.answered:
            await self._check(event.value)

    @on(ItemsBox.Submitted)
    async def _picked(self, event: ItemsBox.Submitted) -> None:
        if not self.answered:
            await self._check(event.typed)

    @on(Rating.Pressed)
    async def _rated(self, event: Rating.Pressed) -> None:
        await self.action_rate(event.rating)

    async def action_show(self) -> None:
        if self.sitting.turn is None:
            return
        if self.answered:
            if self._suggested is not None:
                await self.action_rate(self._suggested)
        elif self.card().kind in ("number", "bug"):
            self.query_one("#typed", Input).focus()
        elif not asking.is_typed(self.card()):
            await self._answer()

    def action_leave_field(self) -> None:
        self.query_one("#card").focus()
        if not self.answered and asking.is_typed(self.card()):
            self.tell("The keys are commands now; enter goes back to the answer.")

    async def action_rate(self, rating: int) -> None:
        if not self.answered:
            return
        try:
            self.sitting.rate(rating)
            self.sitting.next()
        except DeckError as error:
            self.tell(f"{error}.")
            return
        await self.ask()

    async def action_undo(self) -> None:
        try:
            said = self.sitting.undo()
        except DeckError as error:
            said = f"{error}."
        await self.ask(said)

    async def action_aside(self, how: str) -> None:
        try:
            said = self.sitting.bury() if how == "bury" else self.sitting.suspend()
            self.sitting.next()
        except DeckError as error:
            said = f"{error}."
        await self.ask(said)

    async def action_edit(self) -> None:
        try:
            with self.app.suspend():
                self.desk.edit(self.sitting)
            said = "The cards were read again."
        except SuspendNotSupported:
            said = "The editor cannot be shown on this terminal."
        except DeckError as error:
            said = f"{error}."
        await self.ask(said)

    @work(thread=True, exclusive=True, exit_on_error=False)
    def action_open_picture(self) -> None:
        """In a thread: a browser may take its time."""
        try:
            said = editor.open_picture(self.card(), self.desk.cards_dir)
        except DeckError as error:
            said = f"{error}."
        self.app.call_from_thread(self.tell, said)

    async def on_key(self, event: events.Key) -> None:
        """Enter goes back to the options or steps that were left by escape."""
        boxes = self.query(ItemsBox)
        if event.key == "enter" and not self.answered and boxes and not boxes.first().has_focus:
            boxes.first().focus()
            event.stop()
