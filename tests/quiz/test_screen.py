"""The full screen, driven by Textual's pilot: every key, every kind of card, narrow and wide."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from often import often
from textual.pilot import Pilot
from textual.widgets import Input, Markdown, Static

from grader.quiz import editor, store
from grader.quiz.folder import load_folder
from grader.quiz.plan import Wanted
from grader.quiz.screen.app import LookScreen, StepApp, StepScreen
from grader.quiz.screen.choose import ChooseScreen
from grader.quiz.session import Quiz
from grader.quiz.sitting import Desk
from grader.quiz.steps import Step

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
Script = Callable[["Me"], Awaitable[None]]


class Me:
    """Presses keys, and reads the screen."""

    def __init__(self, app: StepApp, talk: Quiz, pilot: Pilot[None]) -> None:
        self.app, self.talk, self.pilot = app, talk, pilot

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    def says(self, where: str) -> str:
        return str(self.app.screen.query_one(where, Static).content)

    def page(self) -> str:
        """All that is to be read, in order."""
        shown = self.app.screen.query_one(".page").children
        return "\n".join(each.source if isinstance(each, Markdown) else str(each.content) for each in shown)  # type: ignore[attr-defined]

    @property
    def step(self) -> Step:
        assert isinstance(self.app.screen, StepScreen)
        return self.app.screen.step

    def card(self) -> str:
        assert self.talk.sitting is not None
        assert self.talk.sitting.turn is not None
        assert self.step.asks != "choose"
        return self.talk.sitting.turn.card.id

    def answered(self) -> bool:
        return self.step.asks == "rate" and self.app.screen.query_one("#choices").display


def hold(
    folder: Path,
    script: Script,
    *,
    wanted: Wanted | None = None,
    new: int | None = None,
    now: datetime = NOON,
    size: tuple[int, int] = (80, 24),
) -> list[str]:
    """Play the script on a screen that nobody sees; returns what is said after it."""

    async def drive() -> list[str]:
        with store.opened() as progress:
            wants = Wanted(decks=("06",)) if wanted is None else wanted
            talk = Quiz(Desk(progress, load_folder(folder), folder, wants, new, lambda: now), stay=True)
            app = StepApp(talk.steps())
            async with app.run_test(size=size) as pilot:
                await pilot.pause()
                await script(Me(app, talk, pilot))
            app.finish()
            return talk.summary()

    return asyncio.run(drive())


def only(kind: str) -> Wanted:
    return Wanted(kinds=(kind,))


def reviews() -> list[tuple[str, int]]:
    with store.opened() as progress:
        return [(card, rating) for card, rating, _ in progress.reviews()]


@pytest.mark.parametrize(("show", "rating"), [("space", 1), ("enter", 4)])
def test_a_card_is_shown_and_rated(seven: Path, show: str, rating: int) -> None:
    async def script(me: Me) -> None:
        assert (me.card(), me.answered()) == ("plain", False)
        await me.press(str(rating))  # too early
        assert reviews() == []
        await me.press(show)
        assert me.answered()
        assert "Nothing" in me.page()
        waits = [me.says(f"#choice-{each}").split("\n") for each in (1, 2, 3, 4)]
        assert waits == [["1 again", "1 min"], ["2 hard", "6 min"], ["> 3 good", "10 min"], ["4 easy", "8 d"]]
        await me.press(str(rating))
        assert me.card() == "hidden"

    hold(seven, script)
    assert reviews() == [("plain", rating)]


def test_a_rating_can_be_clicked(seven: Path) -> None:
    async def script(me: Me) -> None:
        await me.press("space")
        await me.pilot.click("#choice-3")
        await me.pilot.pause()
        assert me.card() == "hidden"

    hold(seven, script)
    assert reviews() == [("plain", 3)]


TYPED = {
    "number, right": ("number", [*"0.7", "space", "G", "B", "enter"], "Right: it is 700 MB.", 3),
    "number, not known": ("number", ["enter"], "It is 700 MB.", 1),
    "bug, right": ("bug", ["2", "enter"], "Right: line 2.", 3),
}


@pytest.mark.parametrize(("kind", "keys", "said", "suggested"), TYPED.values(), ids=TYPED.keys())
def test_what_is_typed_is_checked_and_suggests_a_rating(
    seven: Path, kind: str, keys: list[str], said: str, suggested: int
) -> None:
    async def script(me: Me) -> None:
        await me.press(*keys)
        assert me.answered()
        assert said in me.page()
        assert me.says(f"#choice-{suggested}").startswith(f"> {suggested}")  # a sign, not only a colour
        await me.press("enter")

    hold(seven, script, wanted=only(kind))
    assert reviews() == [("ring-bytes" if kind == "number" else "fault", suggested)]


def test_what_is_no_answer_is_told_and_asked_again(seven: Path) -> None:
    async def script(me: Me) -> None:
        await me.press(*"many", "enter")
        assert not me.answered()
        assert me.says("#said") == "That is not a number. Write it like 1.5 or 2e9."

    hold(seven, script, wanted=only("number"))


def test_out_of_a_field_letters_are_keys(seven: Path) -> None:
    async def script(me: Me) -> None:
        await me.press("u", "1")
        field = me.app.screen.query_one("#typed", Input)
        assert field.value == "u1"
        await me.press("escape", "u")
        assert me.says("#said") == "There is nothing to undo."
        await me.press("escape", "enter")
        assert field.has_focus

    hold(seven, script, wanted=only("number"))


def places(me: Me, *texts: str) -> list[str]:
    """The numbers at which options or steps are shown."""
    assert me.talk.sitting is not None
    turn = me.talk.sitting.turn
    assert turn is not None
    all_ = [option.text for option in turn.card.options] or list(turn.card.steps)
    return [
        str(turn.order.index(next(at for at, one in enumerate(all_) if one.startswith(text))) + 1) for text in texts
    ]


@pytest.mark.parametrize("right", [True, False])
def test_options_are_ticked_by_their_numbers(seven: Path, right: bool) -> None:
    async def script(me: Me) -> None:
        tree, ring, halving = places(me, "The tree", "The ring", "Halving")
        await me.press(tree, ring)
        if right:
            await me.press(tree, halving)  # tree again: no tick any more
        await me.press("enter")
        assert ("Right:" if right else f"Not right: {tree} is wrong; {halving} is missing") in me.page()
        assert (f"{tree}. **Wrong, and you chose it:**" in me.page()) is not right
        assert "Its root sends everything twice." in me.page()
        await me.press("enter")

    hold(seven, script, wanted=only("choice"))
    assert reviews() == [("which", 3 if right else 1)]


def test_options_are_ticked_by_arrows_and_space_too(seven: Path) -> None:
    async def script(me: Me) -> None:
        for place in places(me, "The ring", "Halving"):
            await me.press(*["down"] * (int(place) - 1), "space", *["up"] * (int(place) - 1))
        await me.press("enter")
        assert "\nRight: " in me.page()

    hold(seven, script, wanted=only("choice"))


@pytest.mark.parametrize("how", ["typed", "moved", "wrong"])
def test_steps_are_put_in_order(seven: Path, how: str) -> None:
    async def script(me: Me) -> None:
        order = places(me, "Cut", "Reduce", "All")
        if how == "typed":
            await me.press(*order)
        elif how == "moved":
            now = ["1", "2", "3"]
            for to, place in enumerate(order):
                at = now.index(place)
                await me.press(*["up"] * 3, *["down"] * at, *["shift+up"] * (at - to))
                now.insert(to, now.pop(at))
        await me.press("enter")
        said = "Not right: the right order is " + " ".join(order) + "." if how == "wrong" else "\nRight.\n"
        assert said in me.page()

    hold(seven, script, wanted=only("order"))


def test_a_diagram_says_what_is_drawn_and_opens_it(seven: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: bool(opened.append(url)) or True)

    async def script(me: Me) -> None:
        assert "Four ranks on a circle" in me.page()
        await me.press("o")
        assert opened == [(seven / "pictures" / "ring.svg").as_uri()]
        assert "open in your browser" in me.says("#said")

    async def gone(me: Me) -> None:
        await me.press("o")
        assert "no such picture" in me.says("#said")

    hold(seven, script, wanted=only("diagram"))
    (seven / "pictures" / "ring.svg").unlink()
    hold(seven, gone, wanted=only("diagram"))


@pytest.mark.parametrize(("key", "undone"), [("3", "The answer to"), ("b", "no longer buried"), ("s", "no longer")])
def test_undo_takes_back_an_answer_a_bury_and_a_suspend(seven: Path, key: str, undone: str) -> None:
    async def script(me: Me) -> None:
        if key == "3":
            await me.press("space")
        await me.press(key)
        assert me.card() == "hidden"
        await me.press("escape", "u")
        assert (me.card(), undone in me.says("#said")) == ("plain", True)

    hold(seven, script)
    assert reviews() == []


def test_a_card_is_edited_and_read_again(seven: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, text = seven / "06.md", (seven / "06.md").read_text()
    edits = iter(
        [text.replace("What does a returned", "What says a returned"), text.replace("level: mid", "level: low", 1)]
    )
    monkeypatch.setattr(StepApp, "suspend", contextlib.nullcontext)
    monkeypatch.setattr(editor, "edit", lambda *_: file.write_text(next(edits)))

    async def script(me: Me) -> None:
        await me.press("e")
        assert "What says a returned" in me.page()
        await me.press("e")  # now it is broken
        assert "06.md:6: card 'plain' has level 'low'" in me.says("#said")
        assert "What says a returned" in me.page()
        await me.press("space", "3")
        assert me.card() == "hidden"

    hold(seven, script)
    assert reviews() == [("plain", 3)]


def test_help_and_statistics_come_and_go(seven: Path) -> None:
    async def script(me: Me) -> None:
        await me.press("question_mark")
        assert isinstance(me.app.screen, LookScreen)
        await me.press("escape", "t")
        assert isinstance(me.app.screen, LookScreen)
        assert "Due in the next 30 days" in me.page()
        await me.press("q")
        assert me.card() == "plain"

    hold(seven, script)


def test_an_empty_queue_says_so(seven: Path) -> None:
    async def script(me: Me) -> None:
        assert me.step.title == "Done"
        assert "Nothing is due." in me.page()
        assert "Not seen yet: 7." in me.page()
        await me.press("c")
        assert isinstance(me.app.screen, ChooseScreen)

    hold(seven, script, new=0)


def test_after_the_last_card_undo_brings_it_back(seven: Path) -> None:
    async def script(me: Me) -> None:
        await me.press("space", "4")
        assert me.step.title == "Done"
        assert "Answered 1: 1 new" in me.page()
        await me.press("u")
        assert me.card() == "hidden"

    hold(seven, script, wanted=only("cloze"))
    assert reviews() == []


def test_choosing_counts_and_starts(seven: Path) -> None:
    async def script(me: Me) -> None:
        assert isinstance(me.app.screen, ChooseScreen)
        assert me.says("#counts") == "0 due, 7 new today (at most 10 a day), of 7 cards"
        await me.press("tab", "down", "space")  # the second level
        assert me.says("#counts") == "0 due, 3 new today (at most 10 a day), of 3 cards"
        await me.press(*["minus"] * 9)
        assert me.says("#counts") == "0 due, 1 new today (at most 1 a day), of 3 cards"
        await me.press("tab", "down", "down", "enter")  # and of kind number
        await me.press("s")
        assert me.card() == "ring-bytes"

    hold(seven, script, wanted=Wanted())
    with store.opened() as progress:
        assert progress.new_a_day() == 1


@pytest.mark.parametrize("size", often({"usual": ((60, 20),), "small": ((40, 12),), "large": ((200, 60),)}, "small"))
def test_any_size_shows_the_ratings_and_the_keys(seven: Path, size: tuple[int, int]) -> None:
    async def script(me: Me) -> None:
        await me.pilot.resize_terminal(*size)
        for key in ("space", "t", "escape", "question_mark", "escape"):
            await me.press(key)
        for where in ("#choice-1", "#choice-4", "#keys", "#where"):
            region = me.app.screen.query_one(where).region
            assert region.width >= 8
            assert region.right <= size[0]
            assert region.bottom <= size[1]
        assert me.app.screen.query_one("#page").region.height >= 4

    hold(seven, script)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_quitting_keeps_what_was_answered(seven: Path, key: str) -> None:
    async def script(me: Me) -> None:
        await me.press("space", "3", key)
        assert not me.app.is_running or me.app._exit

    assert hold(seven, script)[0] == "Answered 1: 1 new, 0 seen before."
    assert reviews() == [("plain", 3)]


def test_nothing_is_said_by_colour_alone(seven: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def script(me: Me) -> None:
        assert me.app.no_color
        await me.press("9", "enter")
        assert "Not 9" in me.page()
        assert ">" in me.says("#choice-1")

    hold(seven, script, wanted=only("number"))
