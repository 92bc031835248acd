"""Messages in the picture of a story: arrows, how those end that never arrive, and their labels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from grader.trace import style
from grader.trace.board import faults, phrases
from grader.trace.board.scene import MOST_PALE, Message, Scene
from grader.trace.board.sheet import Sheet, typical
from grader.trace.paper import part
from grader.trace.style import BAD, MESSAGE, ODD

CLIENT, PALE, PALE_ODD = "#7a6bb0", "#b4c7e4", "#d9c3a8"
_SIZE = 10.0
HALF = 7.5  # half of what the bar of a client's operation is high
BEND = 9.0
NEAR = 24.0  # pixels within which only one of many messages of a type is tried
MANY_LABELS, APART = 34, 110.0  # arrows beyond which no label crosses a line; pixels between labels of the same words
_BESIDE = ((0.5, 1), (0.5, -1), (0.36, 1), (0.64, -1), (0.64, 1), (0.36, -1), (0.24, 1), (0.76, -1), (0.24, -1),
           (0.76, 1))  # fmt: skip


@dataclass(frozen=True)
class Arrow:
    """From (x1, y1) towards (x2, y2), of which the part up to `share` is drawn; `bend` pixels beside the straight line
    in its middle, so that it does not lie on another."""

    message: Message
    x1: float
    y1: float
    x2: float
    y2: float
    share: float = 1.0
    bend: float = 0.0

    @property
    def tip(self) -> tuple[float, float]:
        return self.at(self.share)

    def at(self, share: float) -> tuple[float, float]:
        dx, dy = self.x2 - self.x1, self.y2 - self.y1
        aside = 4 * self.bend * share * (1 - share) / (math.hypot(dx, dy) or 1.0)
        return self.x1 + dx * share + dy * aside, self.y1 + dy * share - dx * aside

    @property
    def control(self) -> tuple[float, float]:
        """The control point of the quadratic curve that it is where it is bent."""
        dx, dy = self.x2 - self.x1, self.y2 - self.y1
        aside = 2 * self.bend / (math.hypot(dx, dy) or 1.0)
        return self.x1 + dx / 2 + dy * aside, self.y1 + dy / 2 - dx * aside

    @property
    def segments(self) -> list[tuple[float, float, float, float]]:
        """What is drawn, as straight pieces."""
        cuts = [0.0, self.share] if not self.bend else [self.share * at / 6 for at in range(7)]
        points = [self.at(cut) for cut in cuts]
        return [(*one, *other) for one, other in itertools.pairwise(points)]


def of(sheet: Sheet) -> list[Arrow]:
    """The arrows in the order of drawing: pale ones below, red ones above."""
    reach = typical(sheet)
    found = [_arrow(sheet, message, reach) for message in sheet.scene.messages]
    if sheet.scene.unit == "step":
        found = _apart(found)
    return sorted(found, key=lambda arrow: (arrow.message.red, not arrow.message.pale))


def _apart(arrows: list[Arrow]) -> list[Arrow]:
    """The same arrows, bent where they would lie on a shorter one: all times being whole, many slopes are alike."""
    found = list(arrows)
    order = sorted(
        range(len(found)), key=lambda at: abs(found[at].x2 - found[at].x1) + abs(found[at].y2 - found[at].y1)
    )
    ends: dict[tuple[bool, float, float, float], int] = {}
    for at in order:
        arrow = found[at]
        if arrow.share < 1 or _loop(arrow):
            continue
        slope = round(math.atan2(arrow.y2 - arrow.y1, arrow.x2 - arrow.x1), 1)
        keys = [(True, arrow.x1, arrow.y1, slope), (False, arrow.x2, arrow.y2, slope)]
        count = max(ends.get(key, 0) for key in keys)
        for key in keys:
            ends[key] = count + 1
        found[at] = replace(arrow, bend=BEND * count)
    return found


def _arrow(sheet: Sheet, message: Message, reach: float) -> Arrow:
    sent = message.sent
    x1 = sheet.x(sent.sent)
    share = {"delivered": 1.0, "lost": 1.0, "dropped": 0.5, "in flight": 0.42}.get(sent.fate, 0.5)
    if sent.arrived is not None and sent.fate != "dropped":
        x2 = sheet.x(sent.arrived)
    else:
        share = min(share, 0.5)
        x2 = x1 + min(reach, max((sheet.right - x1) / share, 2.0))
    if not (sheet.knows(sent.src) and sheet.knows(sent.dst)):
        y = sheet.y(sent.src if sheet.knows(sent.src) else sent.dst) if _one_known(sheet, message) else sheet.top + 8
        down = 1 if sheet.knows(sent.src) else -1
        return Arrow(message, x1, y, min(x1 + 14, sheet.right), min(max(y + 16 * down, sheet.top), sheet.bottom))
    y1, y2 = _edges(sheet, sent.src, sent.dst)
    if sent.fate == "cut":
        share = _cut_at(sheet, message, y1, y2)
    return Arrow(message, x1, y1, x2, y2, share)


def _edges(sheet: Sheet, src: str, dst: str) -> tuple[float, float]:
    """The heights at which an arrow begins and ends: on lanes, but at the edge of the bars of clients."""
    y1, y2 = sheet.y(src), sheet.y(dst)
    asking = {operation.lane for operation in sheet.scene.operations}
    side = (y2 > y1) - (y2 < y1)
    return y1 + HALF * side * (src in asking), y2 - HALF * side * (dst in asking)


def _one_known(sheet: Sheet, message: Message) -> bool:
    return sheet.knows(message.sent.src) or sheet.knows(message.sent.dst)


def _cut_at(sheet: Sheet, message: Message, y1: float, y2: float) -> float:
    """How far a message comes that is cut off: to the first edge of the partition, or almost to the receiver."""
    sent = message.sent
    at = sent.sent if sent.arrived is None else sent.arrived
    for band in sheet.scene.bands:
        parts = [faults.side(sheet.scene, band, node) for node in (sent.src, sent.dst)]
        if faults.is_parted(band) and band.since <= at <= band.until and -1 not in parts and parts[0] != parts[1]:
            between = [y for y in faults.edges(sheet, band) if min(y1, y2) < y < max(y1, y2)]
            if between:
                return (min(between, key=lambda y: abs(y - y1)) - y1) / (y2 - y1)
    return 0.7 if y1 != y2 else 0.5


def colour(message: Message) -> str:
    if message.red:
        return BAD
    if message.sent.fate in ("dropped", "cut", "lost"):
        return PALE_ODD if message.pale else ODD
    return PALE if message.pale else CLIENT if message.client else MESSAGE


def draw(sheet: Sheet, arrows: list[Arrow]) -> Iterator[str]:
    """All arrows. Those drawn in full are lines that labels keep away from."""
    many = sum(not arrow.message.pale for arrow in arrows) > 160
    pale = [arrow for arrow in arrows if arrow.message.pale]
    yield '<g fill="none">'
    if len(pale) > MOST_PALE:
        path = "".join(f"M{a.x1:.1f} {a.y1:.1f}L{a.tip[0]:.1f} {a.tip[1]:.1f}" for a in pale)
        shape = f'<path d="{path}" stroke="{PALE}" stroke-width="0.5" stroke-opacity="0.5"/>'
        yield part(shape, f"{len(pale):,} messages")
    for arrow in arrows:
        message = arrow.message
        if message.pale and len(pale) > MOST_PALE:
            continue
        if not message.pale and not _loop(arrow):
            for segment in arrow.segments:
                sheet.room.cross(segment)
        thick = 2.2 if message.red else 0.8 if message.pale else 1.0 if many else 1.4
        yield part(_shape(arrow, colour(message), thick), phrases.of_message(message.sent, sheet.scene.unit))
    yield "</g>"


def _loop(arrow: Arrow) -> bool:
    return arrow.y1 == arrow.y2


def _shape(arrow: Arrow, ink: str, thick: float) -> Iterator[str]:
    message, (x, y) = arrow.message, arrow.tip
    fate = message.sent.fate
    dash = ' stroke-dasharray="4 3"' if message.sent.copy else ""
    look = f'stroke="{ink}" stroke-width="{thick:g}"{dash}'
    size = 7.5 if message.red else 4.0 if message.pale else 6.5
    dx, dy = arrow.x2 - arrow.x1, arrow.y2 - arrow.y1
    if _loop(arrow):
        middle, high = (arrow.x1 + x) / 2, arrow.y1 - 16
        yield f'<path d="M{arrow.x1:.1f} {arrow.y1:.1f}Q{middle:.1f} {high - 4:.1f} {x:.1f} {y:.1f}" {look}/>'
        dx, dy = x - middle, y - high
    elif fate == "in flight":
        for number in range(3):
            (xa, ya), (xb, yb) = arrow.at(arrow.share * number / 3), arrow.at(arrow.share * (number + 1) / 3)
            fade = f' stroke-opacity="{(1.0, 0.55, 0.22)[number]:g}"'
            yield f'<path d="M{xa:.1f} {ya:.1f}L{xb:.1f} {yb:.1f}" {look}{fade}/>'
    elif arrow.bend:
        cx, cy = arrow.control
        yield f'<path d="M{arrow.x1:.1f} {arrow.y1:.1f}Q{cx:.1f} {cy:.1f} {x:.1f} {y:.1f}" {look}/>'
        dx, dy = x - cx, y - cy
    else:
        yield f'<path d="M{arrow.x1:.1f} {arrow.y1:.1f}L{x:.1f} {y:.1f}" {look}/>'
    if fate == "delivered":
        yield style.head(x, y, dx, dy, ink, size)
    elif fate in ("dropped", "lost"):
        yield _cross(x, y, size * 0.62, ink, thick)
    elif fate == "cut":
        wide = 3.0 if message.pale else 5.5
        yield f'<path d="M{x - wide:.1f} {y:.1f}h{2 * wide:g}" stroke="{ink}" stroke-width="{thick + 0.8:g}"/>'


def _cross(x: float, y: float, reach: float, ink: str, thick: float) -> str:
    return (
        f'<path d="M{x - reach:.1f} {y - reach:.1f}l{2 * reach:.1f} {2 * reach:.1f}m0 {-2 * reach:.1f}'
        f'l{-2 * reach:.1f} {2 * reach:.1f}" stroke="{ink}" stroke-width="{thick + 0.4:g}"/>'
    )


def label(sheet: Sheet, arrows: list[Arrow]) -> None:
    """Write what messages say where there is room: red ones first, then between nodes. What one node sends to several
    at once is written once; in seconds, so is what several send at about the same time."""
    asking = {operation.lane for operation in sheet.scene.operations}
    full = [arrow for arrow in arrows if not arrow.message.pale]
    roomy = len(full) <= MANY_LABELS
    apart = 0.0 if sheet.scene.unit == "step" else APART
    once: set[str] = set()  # types that are written somewhere: the first of each may cross lines
    tried: set[tuple[str, str, int]] = set()
    written: dict[str, list[tuple[float, str, float]]] = {}

    def rank(arrow: Arrow) -> tuple[bool, bool, bool, float, int]:
        sent = arrow.message.sent
        known = bool(asking & {sent.src, sent.dst})
        return (not arrow.message.red, known, sent.copy, sent.sent, sent.number)

    for arrow in sorted(full, key=rank):
        sent = arrow.message.sent
        if not roomy and asking & {sent.src, sent.dst} and not arrow.message.red:
            continue  # the bar of the operation says it
        about = (sent.type, sent.src, int(arrow.x1 / NEAR))
        if not roomy and about in tried and not arrow.message.red:
            continue  # no room there, or it is written
        tried.add(about)
        words = phrases.labels(sent)
        same = written.setdefault(words[0] if roomy else sent.type, [])
        again = any((src, at) == (sent.src, sent.sent) or abs(x - arrow.x1) < apart for x, src, at in same)
        if (arrow.message.red or not again) and _written(sheet, arrow, words, roomy or sent.type not in once):
            once.add(sent.type)
            same.append((arrow.x1, sent.src, sent.sent))


def _written(sheet: Sheet, arrow: Arrow, words: list[str], roomy: bool) -> bool:
    ink = _ink(arrow.message)
    for told in words:
        if sheet.write(told, _beside(arrow, told), _SIZE, ink):
            return True
    if not (roomy or arrow.message.red):
        return False
    return any(sheet.write(told, _beside(arrow, told), _SIZE, ink, over_lines=True) for told in words)


def _ink(message: Message) -> str:
    return {MESSAGE: "#174a96", CLIENT: "#5a4b92"}.get(colour(message), colour(message))


def _beside(arrow: Arrow, words: str) -> Iterator[tuple[float, float, str]]:
    """Places beside an arrow, a corner of the text close to it: in the middle first, then towards its ends."""
    if _loop(arrow):
        yield (arrow.x1 + arrow.tip[0]) / 2, arrow.y1 - 14, "middle"
        return
    falls = (arrow.y2 - arrow.y1) * (1 if arrow.x2 >= arrow.x1 else -1) > 0
    for share, hand in _BESIDE:
        x, y = arrow.at(arrow.share * share)
        if hand > 0:  # to the right of it
            yield x + 4, y - 2.4 if falls else y + _SIZE * 0.84 + 1.6, "start"
        else:
            yield x - 4, y + _SIZE * 0.84 + 1.6 if falls else y - 2.4, "end"
    if abs(arrow.x2 - arrow.x1) < 12:  # steep: right at its side
        for share in (0.5, 0.35, 0.65):
            x, y = arrow.at(arrow.share * share)
            yield x + 5, y + 3, "start"
            yield x - 5, y + 3, "end"


def legend(scene: Scene) -> list[tuple[str, str]]:
    found = scene.messages
    entries = []
    alike = [m for m in found if not m.red]
    if any(not m.pale and not m.client and m.sent.fate == "delivered" for m in alike):
        entries.append((style.arrow(MESSAGE), "message"))
    if any(not m.pale and m.client and m.sent.fate == "delivered" for m in alike):
        entries.append((style.arrow(CLIENT), "of or to a client"))
    if any(m.pale for m in alike):
        entries.append(
            (style.arrow(PALE), "message, too many to tell apart" if scene.crowded else "sent again and again")
        )
    if any(m.sent.copy for m in alike):
        entries.append((style.arrow(MESSAGE, "4 3"), "duplicate"))
    line = f'<path d="M0 -4H14" stroke="{ODD}" stroke-width="1.4"/>'
    fates = {m.sent.fate for m in alike}
    if "dropped" in fates:
        entries.append((line + _cross(15, -4, 4, ODD, 1.4).replace("/>", ' fill="none"/>'), "dropped"))
    if "cut" in fates:
        entries.append((line + f'<path d="M14 -9v10" stroke="{ODD}" stroke-width="2.2"/>', "cut off"))
    if "lost" in fates:
        line = f'<path d="M0 -4H18" stroke="{ODD}" stroke-width="1.4"/>'
        entries.append((line + _cross(19, -4, 4, ODD, 1.4).replace("/>", ' fill="none"/>'), "lost: receiver down"))
    if "in flight" in fates:
        fade = "".join(
            f'<path d="M{7 * at} -4h7" stroke="{MESSAGE}" stroke-width="1.4" stroke-opacity="{opacity}"/>'
            for at, opacity in enumerate((1, 0.55, 0.22))
        )
        entries.append((fade, "still under way"))
    if any(m.red for m in found):
        entries.append((style.arrow(BAD), "what went wrong"))
    return entries
