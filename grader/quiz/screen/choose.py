"""The screens around the asking: what to be asked, how it went, statistics, help."""

from __future__ import annotations

from collections import Counter

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Static, TabbedContent, TabPane

from grader.quiz import statistics
from grader.quiz.deck import KINDS, LEVELS
from grader.quiz.plan import Wanted
from grader.quiz.screen.boxes import TickList
from grader.quiz.screen.desk import Desk

_KEYS = """\
space, enter   show the answer; check what was typed
1 2 3 4        rate: again, hard, good, easy
enter          take the suggested rating
u              undo, also what an earlier session did
b, s           bury until tomorrow; suspend for good
e              edit the card in $EDITOR
o              open a diagram's picture in the browser
t              statistics
?              this list
q, Ctrl-C      quit; every answer is kept already

number, line   type it, enter checks; a unit may follow
choice         1-9 or space ticks, enter checks
order          up/down choose, shift+up/down (or k, j)
               move; or type the numbers in order
esc            out of a field, so that keys are commands"""


class HelpScreen(ModalScreen[None]):
    """The keys."""

    BINDINGS = [Binding("escape,question_mark,q,space,enter", "dismiss", show=False)]  # noqa: RUF012

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            yield Static(_KEYS, markup=False)


class StatisticsScreen(Screen[None]):
    """How the learning of the wanted cards goes."""

    BINDINGS = [Binding("escape,t,q,space,enter", "dismiss", show=False)]  # noqa: RUF012

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._counted = statistics.count(desk.cards(), desk.store, desk.now())

    def compose(self) -> ComposeResult:
        yield Static("Statistics", classes="bar")
        with VerticalScroll(classes="page"):
            yield Static(id="drawn", markup=False)
        yield Static("up/down scroll  esc back", classes="keys")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def on_resize(self) -> None:
        lines = statistics.lines(self._counted, min(self.size.width - 4, 100))
        self.query_one("#drawn", Static).update("\n".join(lines))


class DoneScreen(Screen[str]):
    """What was answered and what is due when; dismissed with "undo" or "choose"."""

    BINDINGS = [  # noqa: RUF012
        Binding("u", "dismiss('undo')", show=False),
        Binding("c,enter", "dismiss('choose')", show=False),
    ]

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def compose(self) -> ComposeResult:
        yield Static("Done", classes="bar")
        with VerticalScroll(classes="page"):
            yield Static("\n".join(["", *self._lines]), id="summary", markup=False)
        yield Static("c choose cards  u undo  t statistics  q quit", classes="keys")


class ChooseScreen(Screen[None]):
    """Decks, levels, kinds and topics to tick, and how many cards that makes; nothing ticked means all."""

    BINDINGS = [  # noqa: RUF012
        Binding("s", "start", show=False),
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
        cards, wanted = self.desk.everything(), self.desk.wanted
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

    def on_screen_resume(self) -> None:
        self._count()

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

    def action_start(self) -> None:
        self.dismiss(None)
