"""Why no order explains a history, in a sentence: the common ways in which stores are wrong, else what contradicts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from grader import says
from grader.nodes.histories.history import Operation, called
from grader.nodes.histories.models import Model
from grader.nodes.histories.words import Clock, by, name, shown, timed, whole

_MOST = 5  # operations that a sentence lists


@dataclass(frozen=True)
class _Case:
    """One key's operations, and the one that cannot be placed, which observed `value`."""

    own: Sequence[Operation]
    find_core: Callable[[], list[Operation]]
    stuck: Operation
    model: Model
    clock: Clock

    @property
    def value(self) -> Hashable:
        return self.observed(self.stuck)

    @property
    def text(self) -> str:
        return shown(self.stuck.result if self.stuck.f == "read" else self.stuck.value[0])

    @property
    def what(self) -> str:
        """ "The read of x by c2 at 1.20-1.31 s returned 1" """
        one = self.stuck
        where = f"of {name(one.key)} by {called(one.process)} {self.clock.span(one)}"
        if one.f == "read":
            return f"The read {where} returned {self.text}"
        change = f"The cas {where} from {shown(one.value[0])} to {shown(one.value[1])}"
        return f"{change} {'succeeded' if one.status == 'ok' else f'was refused, as if the value were not {self.text}'}"

    def observed(self, one: Operation) -> Hashable:
        return self.model.value(one.result if one.f == "read" else one.value[0])

    def made(self, one: Operation) -> Hashable:
        return self.model.value(one.value[1] if one.f == "cas" else one.value)

    def writers(self, value: Hashable, failed: bool = False) -> list[Operation]:
        """All that bring `value` about, in the order of their calls; instead, if `failed`, all that failed to."""
        return [
            one
            for one in self.own
            if one.f in ("write", "cas")
            and one.status in (("fail", "unseen") if failed else ("ok", "info"))
            and self.made(one) == value
        ]

    @property
    def changes(self) -> list[Operation]:
        """Writes and cas that took effect for sure."""
        return [one for one in self.own if one.f in ("write", "cas") and one.status == "ok"]

    @property
    def reads(self) -> list[Operation]:
        """Reads that had ended before the stuck operation began and saw something else, in the order of their calls."""
        return [one for one in self.own if one.f == "read" and one.status == "ok" and one.before(self.stuck)
                and self.observed(one) != self.value]  # fmt: skip


Told = tuple[str, list[Operation]]


def sentence(
    own: Sequence[Operation],
    find_core: Callable[[], list[Operation]],
    stuck: Operation,
    model: Model,
    operations: Sequence[Operation],
) -> Told:
    """Why `stuck` cannot be placed among its key's operations `own`, and the operations that show it, `stuck` last.

    `find_core` gives the operations that contradict each other, `stuck` last; it takes long, and is asked only where
    none of the common ways explains it. `operations` are those of all keys.
    """
    case = _Case(own, find_core, stuck, model, Clock.of(operations))
    appends = any(one.f == "append" for one in own)
    ways: tuple[Callable[[_Case], Told | None], ...]
    if stuck.status == "unseen":
        ways = (_refused,)
    elif appends:
        ways = (_not_made, _lost_append, _shrunk)
    else:
        ways = (_never_written, _from_the_future, _stale, _back_in_time, _twice)
    for way in ways:
        if told := way(case):
            return told
    return _contradiction(case)


def _never_written(case: _Case) -> Told | None:
    if case.value == case.model.initial or case.writers(case.value):
        return None
    if failed := case.writers(case.value, failed=True):
        one = failed[-1]
        why = "saw another value" if one.status == "unseen" else "failed"
        return f"{case.what}, but the {by(one)} {why}, so it never happened.", [one, case.stuck]
    return f"{case.what}, which was never written.", [case.stuck]


def _from_the_future(case: _Case) -> Told | None:
    writers = case.writers(case.value)
    if case.value == case.model.initial or not writers or not all(case.stuck.before(one) for one in writers):
        return None
    one = writers[0]
    only = "the only" if len(writers) == 1 else "the first"
    return (
        f"{case.what}, but {only} write of {case.text}, by {called(one.process)}, began at {case.clock.at(one.start)}, "
        f"after the {case.stuck.f} had ended.",
        [one, case.stuck],
    )  # fmt: skip


def _stale(case: _Case) -> Told | None:
    """Overwritten for sure before it began, and not written again since."""
    stuck, writers = case.stuck, [one for one in case.writers(case.value) if not case.stuck.before(one)]
    over = [one for one in case.changes if one.before(stuck) and case.made(one) != case.value
            and all(writer.before(one) for writer in writers)]  # fmt: skip
    if not over:
        return None
    one = max(over, key=lambda one: one.returned)
    return (
        f"{case.what}, but the {by(one)} had ended at {case.clock.at(one.end)}, before that {stuck.f} began, and "
        f"nothing wrote {case.text} afterwards.",
        [one, stuck],
    )


def _back_in_time(case: _Case) -> Told | None:
    """An earlier read had already seen what came later."""
    writers = [one for one in case.writers(case.value) if not case.stuck.before(one)]
    for read in sorted(case.reads, key=lambda one: one.returned, reverse=True):
        newer = case.writers(case.observed(read))
        if not newer:
            continue
        seen = shown(read.result)
        later = f"the {timed(read, case.clock)} had already returned {seen}"
        if all(old.before(new) for old in writers for new in newer):
            then = f"{seen} was written after {case.text}" if writers else f"{case.text} was there before any write"
            return f"{case.what}, but {later}. The value {then}, so the register went back in time.", [read, case.stuck]
        first = next((one for one in case.own if one.f == "read" and one.status == "ok" and one.before(read)
                      and case.observed(one) == case.value), None)  # fmt: skip
        if first is not None and len(writers) == 1 and case.value != case.model.initial:
            return (
                f"{case.what}, but {later}. Before that the {timed(first, case.clock)} had returned {case.text}. "
                f"The value {case.text} was written only once, so it cannot come back.",
                [first, read, case.stuck],
            )
    return None


def _twice(case: _Case) -> Told | None:
    """Two cas took the same value away, which was there once."""
    if case.stuck.f != "cas" or len(case.writers(case.value)) > (case.value != case.model.initial):
        return None
    for one in case.own:
        if (
            one.f == "cas"
            and one.before(case.stuck)
            and one.status == "ok"
            and one is not case.stuck
            and case.observed(one) == case.value
        ):
            times = "written only once" if case.writers(case.value) else "there only at the beginning"
            return (
                f"{case.what}, and so did the {whole(one, case.clock)}. Both replaced {case.text}, which was {times}.",
                [one, case.stuck],
            )
    return None


def _refused(case: _Case) -> Told | None:
    others = case.find_core()[:-1][:_MOST]
    listed = f" This follows from {_listed(others, case.clock)}." if others else ""
    return f"{case.what}, but the value was {case.text} all that time.{listed}", [*others, case.stuck]


def _not_made(case: _Case) -> Told | None:
    """A text that cannot be put together from what was written and appended, however often."""
    value = case.value
    if isinstance(value, str):
        pieces = {one.value for one in case.own if one.f == "append" and one.status != "fail"} - {""}
        starts = {case.made(one) for one in case.own if one.f in ("write", "cas") and one.status in ("ok", "info")}
        ends = {len(start) for start in (*starts, "") if isinstance(start, str) and value.startswith(start)}
        for at in range(len(value) + 1):
            if at in ends:
                ends |= {at + len(piece) for piece in pieces if value.startswith(piece, at)}
        if len(value) in ends:
            return None
    return f"{case.what}, which no order of the writes and appends can give.", [case.stuck]


def _lost_append(case: _Case) -> Told | None:
    """An append that had ended is not in it, and nobody wrote the text anew."""
    if not isinstance(case.value, str) or any(one.f in ("write", "cas") and one.status != "fail" for one in case.own):
        return None
    for one in case.own:
        if one.f == "append" and one.status == "ok" and one.before(case.stuck) and one.value not in case.value:
            return (
                f"{case.what}, but the {by(one)} had ended at {case.clock.at(one.end)}, before that read began, and "
                "its text is missing.",
                [one, case.stuck],
            )
    return None


def _shrunk(case: _Case) -> Told | None:
    """An earlier read saw a text that does not begin this one."""
    if not isinstance(case.value, str) or any(one.f in ("write", "cas") and one.status != "fail" for one in case.own):
        return None
    for read in case.reads:
        text = case.observed(read)
        if isinstance(text, str) and not case.value.startswith(text):
            return (
                f"{case.what}, but the {timed(read, case.clock)} had returned {shown(read.result)}. An append can only "
                "make this text longer.",
                [read, case.stuck],
            )
    return None


def _contradiction(case: _Case) -> Told:
    others = case.find_core()[:-1]
    listed = _listed(others[-_MOST:], case.clock)
    more = f" (and {len(others) - _MOST} more)" if len(others) > _MOST else ""
    return f"{case.what}. No order of the operations allows this together with {listed}{more}.", [*others, case.stuck]


def _listed(operations: Sequence[Operation], clock: Clock) -> str:
    return says.listed(f"the {whole(one, clock)}" for one in operations) or "the other operations"
