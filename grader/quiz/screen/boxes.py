"""Where options are picked and steps are ordered: focused, keys go here first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text
from textual import events, on
from textual.binding import Binding
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widgets import OptionList, Static, TextArea


class ItemsBox(Static, can_focus=True):
    """Numbered texts; what is picked is told as it would be typed in plain lines."""

    class Submitted(Message):
        """The learner has decided; "" if they do not know."""

        def __init__(self, typed: str) -> None:
            super().__init__()
            self.typed = typed

    def __init__(self, texts: Sequence[str], many: bool) -> None:
        super().__init__()
        self.texts, self.done = list(texts), False
        self._many = many

    def on_mount(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Draw all rows anew."""
        table = Table.grid(padding=(0, 1))
        table.add_column(no_wrap=True)
        table.add_column(ratio=1)
        for sign, number in self.rows():
            table.add_row(Text(f"{sign} {number}"), Markdown(self.texts[number - 1]))
        self.update(table)

    def rows(self) -> list[tuple[str, int]]:
        """The sign and number of each row, from the top."""
        raise NotImplementedError

    def typed(self) -> str:
        raise NotImplementedError

    def pressed(self, key: str) -> bool:
        """Whether the key was for this box."""
        raise NotImplementedError

    def on_key(self, event: events.Key) -> None:
        if self.done:
            return
        if event.key == "enter":
            self.post_message(self.Submitted(self.typed()))
        elif not self.pressed(event.key):
            return
        event.stop()
        event.prevent_default()
        self.draw()


class ChoiceBox(ItemsBox):
    """Options to tick by their numbers; where only one is right, a second one takes the tick of the first."""

    def __init__(self, texts: Sequence[str], many: bool) -> None:
        super().__init__(texts, many)
        self._picked: set[int] = set()
        self._cursor = 0

    def rows(self) -> list[tuple[str, int]]:
        signs = [
            f"{'>' if at == self._cursor else ' '} [{'x' if at + 1 in self._picked else ' '}]" for at in self._all()
        ]
        return [(signs[at], at + 1) for at in self._all()]

    def _all(self) -> range:
        return range(len(self.texts))

    def typed(self) -> str:
        return " ".join(map(str, sorted(self._picked)))

    def pressed(self, key: str) -> bool:
        if key in ("up", "down"):
            self._cursor = (self._cursor + (1 if key == "down" else -1)) % len(self.texts)
            return True
        number = self._cursor + 1 if key == "space" else int(key) if key in set("123456789") else 0
        if not 1 <= number <= len(self.texts):
            return False
        if number in self._picked:
            self._picked.discard(number)
        else:
            self._picked = self._picked | {number} if self._many else {number}
        self._cursor = number - 1
        return True


class OrderBox(ItemsBox):
    """Steps to put in order: up and down choose one, with shift they move it; or their numbers are typed in order."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__(texts, True)
        self._arranged = list(range(1, len(texts) + 1))
        self._typed = 0  # so many from the top were typed
        self._cursor = 0

    def rows(self) -> list[tuple[str, int]]:
        return [
            (">" if at == self._cursor else "=" if at < self._typed else " ", number)
            for at, number in enumerate(self._arranged)
        ]

    def typed(self) -> str:
        return " ".join(map(str, self._arranged))

    def pressed(self, key: str) -> bool:
        step = {"up": -1, "down": 1, "shift+up": -1, "shift+down": 1, "k": -1, "j": 1}.get(key)
        if step is not None:
            to = self._cursor + step
            if 0 <= to < len(self.texts):
                if key not in ("up", "down"):
                    rows = self._arranged
                    rows[self._cursor], rows[to] = rows[to], rows[self._cursor]
                    self._typed = 0
                self._cursor = to
            return True
        if key == "backspace":
            self._typed = max(0, self._typed - 1)
            self._cursor = self._typed
            return True
        if key in set("123456789") and int(key) <= len(self.texts):
            number = int(key)
            at = self._arranged.index(number)
            if at >= self._typed and self._typed < len(self.texts):
                self._arranged.insert(self._typed, self._arranged.pop(at))
                self._typed += 1
                self._cursor = min(self._typed, len(self.texts) - 1)
            return True
        return False


class TickList(OptionList):
    """Names to tick; a tick is a sign, not a colour."""

    BINDINGS = [Binding("space", "select", show=False)]  # noqa: RUF012

    class Changed(Message):
        """Something was ticked, or is no longer."""

    def __init__(self, names: Sequence[str], labels: Sequence[str], ticked: Sequence[str], id: str) -> None:  # noqa: A002
        super().__init__(id=id, markup=False)
        self._names, self._labels, self._ticked = list(names), list(labels), set(ticked)
        self.add_options(self._prompt(at) for at in range(len(names)))

    def on_mount(self) -> None:
        self.highlighted = 0 if self._names else None

    def ticked(self) -> tuple[str, ...]:
        """The ticked names, in order."""
        return tuple(name for name in self._names if name in self._ticked)

    def _prompt(self, at: int) -> str:
        return f"[{'x' if self._names[at] in self._ticked else ' '}] {self._labels[at]}"

    @on(OptionList.OptionSelected)
    def _toggle(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._ticked ^= {self._names[event.option_index]}
        self.replace_option_prompt_at_index(event.option_index, self._prompt(event.option_index))
        self.post_message(self.Changed())


class LongField(TextArea):
    """A field for an answer of many lines.

    Textual may draw a field once more on its way out, when it has no styles left: a KeyError that would end the session
    (Textualize/textual#6208, seen with 8.2.8).
    """

    def render_lines(self, crop: Region) -> list[Strip]:
        try:
            return super().render_lines(crop)
        except KeyError:
            return [Strip.blank(crop.width)] * crop.height
