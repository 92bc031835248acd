"""A session of cards, from choosing to the last card, as steps that know no terminal."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from grader.quiz import asking, editor, statistics, words
from grader.quiz.deck import DeckError
from grader.quiz.folder import own
from grader.quiz.plan import Wanted
from grader.quiz.schedule import GOOD, RATINGS
from grader.quiz.sitting import Desk, Sitting, Turn
from grader.quiz.steps import Command, Do, Drawn, QuitError, Reply, Step, Steps, Text

HELP = """\
enter          show the answer; check what was typed;
               take the suggested rating
1 2 3 4        rate: again, hard, good, easy
u              undo, even what an earlier session did
b, s           bury until tomorrow; suspend for good
e              edit a copy of the card in $EDITOR; it is
               asked from now on instead of ours
o              open a diagram's picture in the browser
t, ?           statistics; this list
n N            from now on N new cards a day
q, Ctrl-C      quit; every answer is already saved

on the full screen, while you choose cards
space          tick; tab goes to the next list
+ -            more or fewer new cards a day
s              start

on the full screen, while you answer
number, line   type it, enter checks; a unit may follow
choice         1-9 or space ticks, enter checks
order          up/down choose, shift+up/down (or k, j)
               move; or type the numbers in order
esc            leave a field, so that keys are commands"""
MORE = 10  # new cards that may be added to the day's
_COMMANDS = (
    *map(Command, "ubsot"),
    Command("e", lends=True),
    Command("n", number=True),
    Command("?", "help"),
    Command("q", "quit"),
)
_HOW = {
    "choice": "numbers tick, enter checks",
    "order": "shift+up/down or numbers order, enter checks",
    "number": "enter checks",
    "bug": "enter checks",
    "diagram": "space shows the answer, o opens the picture",
}


class _MovedError(Exception):
    """Another card is in turn now, or the same one anew; the message says why."""


class Quiz:
    """Asks the cards that are wanted. `stay`: choose them first if none were named, and again when none is left."""

    def __init__(self, desk: Desk, *, stay: bool = False) -> None:
        self.desk, self._stay = desk, stay
        self.sitting: Sitting | None = None

    def steps(self) -> Steps:
        """All steps until nothing is left, or the learner quits. Raises DeckError."""
        chosen = not self._stay or self.desk.wanted != Wanted()
        try:
            while True:
                if not chosen:
                    yield from self._ask(Step("rankup quiz", (), "choose", desk=self.desk))
                self.sitting = sitting = Sitting(self.desk)
                sitting.next()
                yield from self._cards(sitting)
                if not self._stay:
                    return
                chosen = False
        except QuitError:
            return

    def summary(self) -> list[str]:
        """What was answered in this session, and what is due when."""
        desk, sitting = self.desk, self.sitting
        answers = sitting.answers() if sitting else []
        now, memories, cards = desk.now(), desk.store.memories(), desk.cards()
        lines = ["Nothing is due."]
        if sitting and (sitting.planned_at_first or answers):
            lines = words.answered(answers, now - sitting.began)
        streak = statistics.streak(desk.store, now)
        lines += words.due(cards, memories, now) + ([f"Days in a row: {streak}."] if streak > 1 else [])
        aside = desk.store.set_aside(now)
        unseen = sum(card.id not in memories and card.id not in aside and not card.predict for card in cards)
        if unseen and not desk.new_left():
            lines.append(
                f"Today's new cards are used up (at most {desk.new_a_day()} a day). For more: {self._for_more()}."
            )
        if put := sum(card.id in aside for card in cards):
            lines.append(f"Buried or suspended: {put}.")
        return lines

    def _for_more(self) -> str:
        decks = "".join(f" {deck}" for deck in self.desk.wanted.decks)
        return "+" if self._stay else f"rankup quiz{decks} --new {self.desk.new_a_day() + MORE}"

    def _cards(self, sitting: Sitting) -> Steps:
        """Ask card after card; where one stays, look back until the learner wants others."""
        said = ""
        while True:
            try:
                if sitting.turn is not None:
                    yield from self._turn(sitting, sitting.turn, said)
                    said = ""
                elif self._stay:
                    page = Text("\n".join(self.summary()), "dim")
                    hint = f"c choose cards  + {MORE} more new cards today"
                    step = Step("Done", (page,), hint=hint, commands=(Command("c"), Command("+")))
                    if (yield from self._ask(step)) != "+":
                        return
                    self.desk.more_new(MORE)
                    sitting.next()
                else:
                    return
            except _MovedError as moved:
                said = str(moved)
            except DeckError as error:
                if sitting.turn is None:
                    raise
                said = f"{error}."

    def _turn(self, sitting: Sitting, turn: Turn, said: str) -> Steps:
        """Show both sides of the card in turn, and keep how it was rated."""
        card = turn.card
        special = f", {turn.special}" if turn.special else ""
        about = f"{turn.place} of {turn.of}  {card.deck} {card.topic} ({card.level}{special})"
        step = Step(
            about,
            (Text(asking.question(card)),),
            prompt="Enter shows the answer: ",
            hint=_HOW.get(card.kind, "space shows the answer"),
            items=tuple(asking.shown(card, turn.order)),
            how="order" if card.steps else "many" if sum(option.right for option in card.options) > 1 else "one",
            said=said,
        )
        suggested, verdict, picked = GOOD, list[Text](), tuple[int, ...]()
        if asking.is_typed(card):
            prompt = f"{asking.prompt(card)} (Enter if you do not know): "
            judged = yield from self._judged(replace(step, asks="pick" if step.items else "line", prompt=prompt), turn)
            suggested, verdict = judged.rating, [Text(judged.said, "good" if judged.right else "bad")]
            picked = judged.picked
        else:
            yield from self._ask(step)
        waits = sitting.intervals()
        step = replace(
            step,
            page=(*step.page, *verdict, Text(asking.answer(card, turn.order, picked))),
            asks="rate",
            items=() if card.options else step.items,
            prompt=f"{words.ratings(waits)}  Enter: {suggested}  u b s e ?  q quit: ",
            hint="1-4 rate, enter as suggested",
            choices={str(each): f"{name}\n{words.short(waits[each])}" for each, name in RATINGS.items()},
            suggested=str(suggested),
            said="",
        )
        while True:
            rating = yield from self._ask(step)
            try:
                sitting.rate(int(rating))
                break
            except DeckError as error:
                step = replace(step, said=f"{error}.")
        sitting.next()

    def _judged(self, step: Step, turn: Turn) -> Generator[Step, Reply | None, asking.Judged]:
        """Ask until there is an answer, or the learner gives up."""
        while typed := (yield from self._ask(step)).strip():
            try:
                return asking.judge(turn.card, typed, turn.order)
            except asking.UnreadableError as error:
                step = replace(step, said=str(error))
        return asking.Judged(False, asking.judge_nothing(turn.card, turn.order))

    def _ask(self, step: Step) -> Generator[Step, Reply | None, str]:
        """Show a step until its reply is no command, or one after which another card is in turn."""
        step = replace(step, commands=(*step.commands, *_COMMANDS))
        while True:
            reply = yield step
            if not isinstance(reply, Do):
                return reply or ""
            if reply.letter in "c+":
                return reply.letter
            said = ""
            try:
                if reply.letter == "?":
                    yield Step("Help", (Drawn(lambda _: HELP.split("\n")),), "look")
                elif reply.letter == "t":
                    yield self._statistics()
                else:
                    said = self._done(reply)
            except DeckError as error:
                said = f"{error}."
            step = replace(step, said=said)

    def _statistics(self) -> Step:
        counted = statistics.count(self.desk.cards(), self.desk.store, self.desk.now())
        return Step("Statistics", (Drawn(lambda width: statistics.lines(counted, width)),), "look")

    def _done(self, reply: Do) -> str:
        """Do what is commanded, and say so. Raises QuitError, DeckError, or _MovedError with what is to be said."""
        sitting = self.sitting
        if reply.letter == "q":
            raise QuitError
        if sitting is None:
            return ""
        if reply.letter == "u":
            raise _MovedError(sitting.undo())
        if sitting.turn is None:
            return ""
        match reply.letter:
            case "b" | "s":
                said = sitting.bury() if reply.letter == "b" else sitting.suspend()
                sitting.next()
                raise _MovedError(said)
            case "e":
                sitting.edit()
                raise _MovedError(f"The cards were read again. Yours are in {own()}.")
            case "o":
                return editor.open_picture(sitting.turn.card, self.desk.cards_dir)
        sitting.set_new_a_day(int(reply.text))
        return f"From now on at most {reply.text} new cards a day."
