"""One partition of a log and its in-sync replicas, step by step: what `acks` and `min.insync.replicas` promise.

    played(Setting("1", 1), "send", "fetch b2", "fetch b3", "send", "kill b1").lost      [2]

As in Kafka 4: followers fetch from the leader; the high watermark is the shortest log among the in-sync replicas (ISR),
and stands still while there are fewer of them than `min.insync.replicas`; the controller appoints a leader out of the
ISR, or, if `unclean` allows it, any replica that lives. Nothing is forced to disk before it is acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from courselib.svg import COLOURS, FAINT, FILLS, GRID, INK, WIDTH, Plot, caption, document

BROKERS = ("b1", "b2", "b3")
T = TypeVar("T")
Entry = tuple[int, int]  # the epoch of the leader that took it, and the message's number


@dataclass(frozen=True)
class Setting:
    """`acks` is "0", "1" or "all"."""

    acks: str = "all"
    min_isr: int = 2
    unclean: bool = False


@dataclass(frozen=True)
class State:
    """`said` are messages by number: acknowledged, refused, or not answered yet. `note`: what the last step did."""

    logs: tuple[tuple[Entry, ...], ...] = ((), (), ())
    up: tuple[bool, ...] = (True, True, True)
    isr: tuple[int, ...] = (0, 1, 2)
    leader: int | None = 0
    epoch: int = 1
    high: int = 0
    said: tuple[str, ...] = ()
    note: str = ""

    @property
    def lost(self) -> list[int]:
        """Acknowledged messages that are not in the leader's log; without a leader nobody knows."""
        if self.leader is None:
            return []
        kept = {number for _, number in self.logs[self.leader]}
        return [n for n, said in enumerate(self.said, start=1) if said == "acknowledged" and n not in kept]


def actions(state: State) -> list[str]:
    """What can happen now."""
    found = ["send"]
    for at, name in enumerate(BROKERS):
        if not state.up[at]:
            found.append(f"restart {name}")
            continue
        if state.leader is not None and at != state.leader:
            found.append(f"fetch {name}")
            if at in state.isr:
                found.append(f"lag {name}")
        found += [f"kill {name}", f"wreck {name}"]
    return found


def after(state: State, setting: Setting, action: str) -> State:
    """What comes of `send`, `fetch b2`, `lag b2` (it falls out of the ISR), `kill b1` (its log stays), `wreck b1` (its
    log is gone) or `restart b1`. Raises ValueError for what cannot happen."""
    if action not in actions(state):
        raise ValueError(f"{action} cannot happen now")
    verb, _, name = action.partition(" ")
    state = replace(state, note="")
    if verb == "send":
        return _acknowledged(_sent(state, setting), setting)
    at = BROKERS.index(name)
    if verb == "fetch":
        assert state.leader is not None
        state = replace(state, logs=_with(state.logs, at, state.logs[state.leader]))
        state = replace(state, isr=tuple(sorted({*state.isr, at})), note=f"{name} has all that the leader has")
    elif verb == "lag":
        state = replace(state, isr=_without(state.isr, at), note=f"{name} is too slow, and leaves the ISR")
    elif verb == "restart":
        state = replace(state, up=_with(state.up, at, True), note=f"{name} is back")
        state = _elected(state, setting) if state.leader is None else state
    else:
        state = replace(state, up=_with(state.up, at, False), note=f"{name} is down")
        if verb == "wreck":
            state = replace(state, logs=_with(state.logs, at, ()), note=f"{name} is down, and its log is gone")
        if len(state.isr) > 1:  # the last one stays in it, down or not
            state = replace(state, isr=_without(state.isr, at))
        if state.leader == at:
            state = _elected(replace(state, leader=None), setting)
    return _acknowledged(state, setting)


def played(setting: Setting, *steps: str) -> State:
    state = State()
    for step in steps:
        state = after(state, setting, step)
    return state


def _sent(state: State, setting: Setting) -> State:
    number = len(state.said) + 1
    if state.leader is None:
        told = "acknowledged" if setting.acks == "0" else "refused"
        return replace(state, said=(*state.said, told), note="there is no leader")
    if setting.acks == "all" and len(state.isr) < setting.min_isr:
        return replace(state, said=(*state.said, "refused"), note="too few replicas are in sync")
    log = (*state.logs[state.leader], (state.epoch, number))
    told = "waits" if setting.acks == "all" else "acknowledged"
    note = f"message {number} is in the leader's log"
    return replace(state, logs=_with(state.logs, state.leader, log), said=(*state.said, told), note=note)


def _elected(state: State, setting: Setting) -> State:
    """The first of the ISR that lives; otherwise, if it is allowed, the first that lives."""
    able = [at for at in state.isr if state.up[at]]
    if not able and setting.unclean:
        able = [at for at in range(len(BROKERS)) if state.up[at]]
    if not able:
        return replace(state, note=f"{state.note}: nobody who lives is in the ISR, so there is no leader")
    isr = state.isr if able[0] in state.isr else (able[0],)
    high = min(state.high, len(state.logs[able[0]]))
    note = f"{state.note}: {BROKERS[able[0]]} leads"
    return replace(state, leader=able[0], isr=isr, epoch=state.epoch + 1, high=high, note=note)


def _acknowledged(state: State, setting: Setting) -> State:
    """The high watermark moves, and messages below it are acknowledged."""
    if state.leader is None:
        return state
    high = state.high
    if len(state.isr) >= setting.min_isr:
        high = max(high, min(_common(state.logs[at], state.logs[state.leader]) for at in state.isr))
    safe = {number for _, number in state.logs[state.leader][:high]}
    said = tuple("acknowledged" if told == "waits" and n in safe else told for n, told in enumerate(state.said, 1))
    return replace(state, high=high, said=said)


def _common(one: Sequence[Entry], other: Sequence[Entry]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _with(values: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _without(values: tuple[int, ...], value: int) -> tuple[int, ...]:
    return tuple(each for each in values if each != value)


@dataclass(frozen=True)
class Row:
    """A broker's log for `drawn`: messages, how many are below the high watermark, and what is said of it."""

    name: str
    entries: Sequence[object]
    says: str = ""
    down: bool = False


def rows(state: State) -> list[Row]:
    found = []
    for at, name in enumerate(BROKERS):
        words = ["leader"] * (state.leader == at) + ["in sync"] * (at in state.isr) + ["down"] * (not state.up[at])
        found.append(Row(name, [number for _, number in state.logs[at]], ", ".join(words), not state.up[at]))
    return found


def drawn(title: str, brokers: Sequence[Row], high: int, lost: Sequence[object] = ()) -> Plot:
    """Logs as rows of messages. Those of `lost` are red wherever they are, or stand alone where nobody has them."""
    cell, left, parts = 34, 150, []
    for line, row in enumerate(brokers):
        y = 46 + 34 * line
        parts.append(caption(8, y + 18, f"{row.name}: {row.says}" if row.says else row.name, "start", INK, 12))
        for at, number in enumerate(row.entries):
            x = left + cell * at
            dash = ' stroke-dasharray="3 3"' if row.down else ""
            fill, ink = FILLS[5 if number in lost else 4]
            parts.append(
                f'<rect x="{x}" y="{y}" width="{cell - 4}" height="26" rx="3" fill="{fill}" stroke="{FAINT}"{dash}/>'
            )
            parts.append(caption(x + 15, y + 17, str(number), "middle", ink, 11))
    low = 52 + 34 * len(brokers)
    mark = left + cell * high - 2
    parts.append(f'<path d="M{mark} 38V{low - 4}" stroke="{INK}" stroke-width="2" stroke-dasharray="4 3"/>')
    parts.append(caption(mark, low + 10, "high watermark", "middle", INK, 11))
    if lost:
        names = ", ".join(map(str, lost))
        parts.append(caption(WIDTH - 12, low + 10, f"acknowledged and lost: {names}", "end", COLOURS[1], 12))
    parts.append(f'<path d="M0 {low + 20}H{WIDTH}" stroke="{GRID}"/>')
    return Plot(document(title, parts, low + 24), title)


def picture(state: State, title: str) -> Plot:
    return drawn(title, rows(state), state.high, state.lost)
