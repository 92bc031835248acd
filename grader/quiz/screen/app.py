"""A session on the full screen, from choosing to the last card."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from textual import work
from textual.binding import Binding

from grader.quiz import words
from grader.quiz.deck import DeckError
from grader.quiz.folder import load_folder
from grader.quiz.plan import Wanted, choose
from grader.quiz.screen.asks import AskScreen
from grader.quiz.screen.choose import ChooseScreen, DoneScreen, HelpScreen, StatisticsScreen
from grader.quiz.screen.desk import Desk
from grader.quiz.screen.leaving import LeavableApp
from grader.quiz.screen.style import CSS
from grader.quiz.sitting import Sitting, clock
from grader.quiz.store import opened


def run(wanted: Wanted, new: int | None, cards_dir: Path) -> int:
    """Ask on the full screen; returns the exit status. Raises DeckError before anything is drawn."""
    decks = load_folder(cards_dir)
    choose(wanted, decks)
    with opened() as store:
        app = QuizApp(Desk(store, decks, cards_dir, wanted, new, clock))
        with _ended_by_signals(app):
            app.run()
        if app.trouble is not None:
            raise app.trouble
        print("\n".join(app.summary()))
    return app.return_code or 0


@contextmanager
def _ended_by_signals(app: QuizApp) -> Iterator[None]:
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


class QuizApp(LeavableApp):
    """Choosing, asking, looking back; each is a screen of its own."""

    CSS = CSS
    TITLE = "rankup quiz"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [  # noqa: RUF012
        Binding("q", "leave", show=False),
        Binding("ctrl+c", "leave", show=False, priority=True),
        Binding("t", "statistics", show=False),
        Binding("question_mark", "help", show=False),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self.sitting: Sitting | None = None
        self.trouble: DeckError | None = None  # what ended the session
        self._ending = False

    def end_soon(self, *, interrupted: bool) -> None:
        """End at the next moment; from a signal's handler. Ctrl-C in an editor is for the editor."""
        if interrupted and self.desk.editing:
            return
        self._ending = True
        if self._loop is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self.exit)

    def on_mount(self) -> None:
        if self._ending:
            self.exit()
        else:
            self.hold()

    @work
    async def hold(self) -> None:
        """Choose (unless the command line did), ask, look back, and choose again."""
        chosen = self.desk.wanted != Wanted()
        try:
            while True:
                if not chosen:
                    await self.push_screen_wait(ChooseScreen(self.desk))
                self.sitting = self.desk.sitting()
                self.sitting.next()
                await self._ask_all(self.sitting)
                chosen = False
        except DeckError as error:
            self.trouble = error
            self.exit()

    async def _ask_all(self, sitting: Sitting) -> None:
        while True:
            if sitting.turn is not None:
                await self.push_screen_wait(AskScreen(self.desk, sitting))
            after = await self.push_screen_wait(DoneScreen(self.summary()))
            if after != "undo":
                return
            sitting.undo()

    def summary(self) -> list[str]:
        """What was answered in this session, and what is due when."""
        desk, sitting = self.desk, self.sitting
        answers = sitting.answers() if sitting else []
        asked = bool(sitting and (sitting.planned_at_first or answers))
        return words.summary(desk.cards(), desk.store.memories(), answers, desk.now(), asked=asked)

    def action_leave(self) -> None:
        self.exit()

    def action_statistics(self) -> None:
        if not isinstance(self.screen, (StatisticsScreen, HelpScreen)):
            try:
                self.push_screen(StatisticsScreen(self.desk))
            except DeckError as error:
                self.notify(str(error), severity="error")

    def action_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())
