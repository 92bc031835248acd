"""The screen on which one chooses what to be asked."""

from __future__ import annotations

from collections import Counter

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Static, TabbedContent, TabPane

from grader.quiz.deck import KINDS, LEVELS
from grader.quiz.plan import Wanted
from grader.quiz.screen.boxes import TickList
from grader.quiz.sitting import Desk
from grader.quiz.steps import Do, Reply


class ChooseScreen(Screen[Reply]):
    """Decks, levels, kinds and topics to tick, and how many cards that makes; nothing ticked means all."""

    BINDINGS = [  # noqa: RUF012
        Binding("s", "reply('')", show=False),
        Binding("q", "reply('q')", show=False),
        Binding("t", "reply('t')", show=False),
        Binding("question_mark", "reply('?')", show=False),
        Binding("plus,equals_sign", "more(1)", show=False),
        Binding("minus", "more(-1)", show=False),
        Binding("left_square_bracket", "tab(-1)", show=False),
        Binding("right_square_bracket,tab", "tab(1)", show=False, priority=True),
    ]
    TABS = ("decks", "levels", "kinds", "topics")

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk

    def compose(self) -> ComposeResult:
        yield Static("rankup quiz", classes="bar")
        yield Static(id="counts", markup=False)
        with TabbedContent(initial="decks"):
            for name in self.TABS:
                with TabPane(name.capitalize(), id=name):
                    yield self._ticks(name)
        yield Static("space tick  tab list  +/- new  s start  ? help  q quit", classes="keys")

    def _ticks(self, name: str) -> TickList:
        cards, wanted = list(self.desk.by_id().values()), self.desk.wanted
        memories, now = self.desk.store.memories(), self.desk.now()
        aside = self.desk.store.set_aside(now)
        asked = {card for card, memory in memories.items() if memory.is_due(now) and card not in aside}
        part, ticked, known = {
            "decks": ("deck", wanted.decks, [deck.id for deck in self.desk.decks]),
            "levels": ("level", wanted.levels, LEVELS),
            "kinds": ("kind", wanted.kinds, KINDS),
            "topics": ("topic", wanted.topics, list(dict.fromkeys(card.topic for card in cards))),
        }[name]
        titles = {deck.id: f" {deck.title}" for deck in self.desk.decks} if name == "decks" else {}
        count = Counter(getattr(card, part) for card in cards)
        due = Counter(getattr(card, part) for card in cards if card.id in asked)
        labels = [f"{count[each]:>3} cards {due[each]:>3} due  {each}{titles.get(each, '')}" for each in known]
        return TickList(known, labels, ticked, id=f"pick-{name}")

    def on_mount(self) -> None:
        self._count()
        self.query_one("#pick-decks").focus()

    @on(TickList.Changed)
    def _changed(self) -> None:
        decks, levels, kinds, topics = (self.query_one(f"#pick-{name}", TickList).ticked() for name in self.TABS)
        self.desk.wanted = Wanted(decks, topics, levels, kinds)
        self._count()

    def _count(self) -> None:
        planned, most = self.desk.planned(), self.desk.new_a_day()
        said = f"{len(planned.due)} due, {len(planned.new)} new today (at most {most} a day)"
        self.query_one("#counts", Static).update(f"{said}, of {len(self.desk.cards())} cards")

    def action_more(self, step: int) -> None:
        self.desk.set_new_a_day(max(0, self.desk.new_a_day() + step))
        self._count()

    def action_tab(self, step: int) -> None:
        tabs = self.query_one(TabbedContent)
        at = (self.TABS.index(tabs.active) + step) % len(self.TABS)
        tabs.active = self.TABS[at]
        self.query_one(f"#pick-{self.TABS[at]}").focus()

    def action_reply(self, letter: str) -> None:
        self.dismiss(Do(letter) if letter else "")
