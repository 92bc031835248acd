"""A story in words, moment by moment: who got what and did what then; and as a list below the picture."""

from __future__ import annotations

from collections.abc import Iterator

from grader.says import listed
from grader.trace.board import phrases
from grader.trace.board.scene import Mark, Message, Operation, Scene
from grader.trace.labels import width, wrap
from grader.trace.story import Sent
from grader.trace.style import BAD, INK, PAPER, SOFT, text

ROW, _SIZE = 16.0, 11.5


def words(scene: Scene) -> list[str]:
    """What happened, a sentence or several for each moment. In a story of steps, entry k - 1 is step k, also where
    nothing happened in it, and the story's own words are taken where it has some. In seconds, each begins with its
    time; messages and timers that only repeat are left out."""
    if scene.unit == "step":
        told: dict[int, list[str]] = {}
        for at, sentence in _told(scene):
            told.setdefault(int(at), []).append(sentence)
        own = dict(enumerate((phrases.line(entry, 2000) for entry in scene.story.words), 1))
        steps = range(1, scene.steps + 1)
        return [own.get(step) or " ".join(told.get(step, ["Nothing happens."])) for step in steps]
    return [f"{phrases.moment(at, 's')}: {sentence}" for at, sentence in _told(scene)]


Clause = tuple[int, int, str]  # its place in a sentence, its order among what was done, and a verb with what follows


def _told(scene: Scene) -> Iterator[tuple[float, str]]:
    for at, found in moments(scene):
        yield (
            at,
            ". ".join(f"{who} {done}" if who else done[:1].upper() + done[1:] for who, done in found.items()) + ".",
        )


def moments(scene: Scene) -> Iterator[tuple[float, dict[str, str]]]:
    """Each time at which something happened, and what each node and client did then; "" is the network."""
    found: dict[float, dict[str, list[Clause]]] = {}

    def say(at: float, who: str, rank: int, clause: str, order: int = 0) -> None:
        found.setdefault(at, {}).setdefault(phrases.line(who, 40), []).append((rank, order, clause))

    for band in scene.bands:
        about = phrases.fault(band, scene.lanes)
        say(band.since, "", 0, f"begins: {about}")
        if band.until < scene.until:
            say(band.until, "", 0, f"ends: {about}")
    asked = {(operation.lane, operation.since) for operation in scene.operations}
    whom = {(m.sent.src, m.sent.sent): f" {phrases.line(m.sent.dst, 40)}" for m in scene.messages if m.client}
    for operation in scene.operations:
        for at, clause in _asked(operation, whom.get((operation.lane, operation.since), "")):
            say(at, operation.lane, 1 if at == operation.since else 3, clause)
    for sent, targets in _together(scene.messages):
        if (sent.src, sent.sent) in asked and sent.fate == "delivered":
            continue  # the client asks, and the node gets it
        say(sent.sent, "" if sent.copy else sent.src, 4, _sends(sent, targets), sent.order)
    for message in scene.messages:
        sent = message.sent
        if message.pale or sent.arrived is None:
            continue
        what = phrases.label(sent)
        if sent.fate == "delivered":
            say(sent.arrived, sent.dst, 2, f"gets {what} from {phrases.line(sent.src, 40)}")
        elif sent.fate == "lost":
            say(sent.arrived, sent.dst, 2, f"is down: {what} from {phrases.line(sent.src, 40)} is lost")
    for mark in scene.marks:
        if not mark.pale and not _twice(mark, scene):
            where = f" (line {mark.event.line})" if mark.event.line else ""
            order = mark.event.order
            first = not order and mark.event.what in ("crash", "restart", "pause", "resume", "start", "timer")
            say(mark.event.at, mark.event.node, 2 if first else 4, phrases.does(mark.event, 120) + where, order)
    for at in sorted(found):
        yield at, {who: ", ".join(clause for *_, clause in sorted(said, key=lambda clause: clause[:2]))
                   for who, said in found[at].items()}  # fmt: skip


def _twice(mark: Mark, scene: Scene) -> bool:
    """Whether a start is told by a restart at the same time."""
    return mark.event.what == "start" and any(
        other.event.what == "restart" and (other.event.node, other.event.at) == (mark.event.node, mark.event.at)
        for other in scene.marks
    )


def _asked(operation: Operation, whom: str) -> Iterator[tuple[float, str]]:
    yield operation.since, f"asks{whom}: {operation.asked}"
    if operation.until is not None:
        ended = {"ok": "knows", "fail": "knows", "info": "gives up"}.get(operation.ended, "ends")
        yield operation.until, f"{ended}: {operation.label}"


def _together(messages: list[Message]) -> Iterator[tuple[Sent, list[str]]]:
    """Messages in full, those of equal words and fate that one node sends at once as one, with the receivers."""
    groups: dict[tuple[object, ...], tuple[Sent, list[str]]] = {}
    for message in messages:
        sent = message.sent
        if not message.pale:
            fate = sent.fate if sent.arrived is None else "arrives"
            key = (sent.sent, sent.src, phrases.label(sent), sent.line, fate, sent.copy)
            groups.setdefault(key, (sent, []))[1].append(phrases.line(sent.dst, 40))
    yield from groups.values()


def _sends(sent: Sent, targets: list[str]) -> str:
    what = phrases.label(sent)
    to = listed(targets)
    if sent.copy:
        return f"the network duplicates {what} from {phrases.line(sent.src, 40)} to {to}"
    fate = {
        "dropped": "dropped", "cut": "cut off", "in flight": "still under way at the end",
        "lost": "" if sent.arrived is not None else "there is no such node",
    }.get(sent.fate, "")  # fmt: skip
    notes = "; ".join(filter(None, [f"line {sent.line}" if sent.line else "", fate]))
    return f"sends {what} to {to}" + (f" ({notes})" if notes else "")


def red(scene: Scene) -> set[int]:
    """The numbers of the steps in which something went wrong."""
    found = {int(mark.event.at) for mark in scene.marks if mark.red}
    return found | {
        int(message.sent.sent if message.sent.arrived is None else message.sent.arrived)
        for message in scene.messages
        if message.red
    }


def listing(sentences: list[str], wrong: set[int], wide: float, top: float) -> tuple[list[str], float]:
    """The words of the steps with their numbers, from `top` down; and where they end."""
    columns = 2 if len(sentences) > 10 and wide > 900 else 1
    room = (wide - 32 - 24 * (columns - 1)) / columns - 34
    rows = [wrap(sentence, _SIZE, room, 4) for sentence in sentences]
    heights = [ROW * len(row) + 4 for row in rows]
    half = sum(heights) / columns
    shown, x, y, lowest = [], 16.0, top, top
    for number, (row, height) in enumerate(zip(rows, heights, strict=True), 1):
        if columns == 2 and x == 16.0 and y - top >= half:
            x, y = 16.0 + room + 34 + 24, top
        shown.append(badge(x + 10, y + 8, number, number in wrong))
        shown += [text(x + 28, y + 12 + ROW * at, words_, _SIZE, BAD if number in wrong else INK)
                  for at, words_ in enumerate(row)]  # fmt: skip
        y += height
        lowest = max(lowest, y)
    return shown, lowest


def badge(x: float, y: float, number: int, wrong: bool = False, size: float = 10.0) -> str:
    """A step's number in a round frame."""
    ink = BAD if wrong else SOFT
    reach = max(width(str(number), size) / 2 + 4, 8.0)
    return (
        f'<rect x="{x - reach:.1f}" y="{y - 8:.1f}" width="{2 * reach:.1f}" height="16" rx="8" fill="{PAPER}" '
        f'stroke="{ink}" stroke-width="1.1"/>' + text(x, y + 3.6, str(number), size, ink, "middle")
    )
