"""The sheet a space-time diagram of nodes is drawn on: where lanes and times lie, what is taken, what is written."""

from __future__ import annotations

from collections.abc import Iterable

from grader.trace import paper
from grader.trace.board import phrases, scale
from grader.trace.board.scene import Mark, Operation, Scene
from grader.trace.labels import Box, fit, width, wrap
from grader.trace.paper import Heading, part
from grader.trace.style import SOFT, text

RIGHT, NARROWEST, NAME = 26.0, 560.0, 11.5
STRIP = 17.0  # the height of a row of faults
_GUTTER = (44.0, 116.0)


class Sheet(paper.Sheet):
    """Lanes from top to bottom, time to the right. `lay` decides where lanes lie: call it before anything that asks."""

    def __init__(self, scene: Scene, title: str, subtitle: str) -> None:
        super().__init__()
        self.scene = scene
        self.scale = scale.of(scene)
        wide = max((width(name, NAME) for name in scene.lanes), default=0.0)
        self.left = 24 + min(max(wide, _GUTTER[0]), _GUTTER[1])
        self.width = max(self.left + self.scale.places[-1] + RIGHT, NARROWEST)
        self.right = self.left + self.scale.places[-1]
        heads = wrap(phrases.line(title, 400), 17, self.width - 32, 2)  # it is set in 15.5, bold
        self.heading = Heading(heads, wrap(phrases.line(subtitle, 900), 12, self.width - 32, 3))
        self.axis = 36.0 + self.heading.height
        self.strip = self.axis + 12
        self._places: dict[str, float] = {}
        self.lay(0)
        self.noted: list[tuple[Mark, float]] = []  # events whose signs are drawn, and where
        self.bars: list[tuple[Operation, float, float]] = []  # operations, with the ends of their bars
        # places on lanes that are taken by marks: of one slot of one lane
        self._slots: dict[tuple[str, str], list[float]] = {}

    def lay(self, strips: int) -> None:
        """Place the lanes under so many rows that name faults."""
        self.top = self.strip + STRIP * strips + (4 if strips else 0)
        self._places, self.bottom = _lanes(self.scene, self.top)

    def x(self, time: float) -> float:
        return self.left + self.scale.at(time)

    def y(self, lane: str) -> float:
        return self._places[lane]

    def knows(self, lane: str) -> bool:
        return lane in self._places

    def inside(self, x: float) -> float:
        return min(max(x, self.left), self.right)

    def band(self, lane: str) -> tuple[float, float]:
        """Top and bottom of what belongs to a lane: half way to its neighbours."""
        at = self.scene.lanes.index(lane)
        y = self.y(lane)
        above = self.y(self.scene.lanes[at - 1]) if at else 2 * self.top - y
        below = self.y(self.scene.lanes[at + 1]) if at + 1 < len(self.scene.lanes) else 2 * self.bottom - y
        return (y + above) / 2, (y + below) / 2

    def slot(self, lane: str, slot: str, x: float, reach: float = 9.0) -> float:
        """The first place from `x` to the right where nothing lies in this slot of this lane yet."""
        taken = self._slots.setdefault((lane, slot), [])
        while any(abs(x - other) < reach - 0.01 for other in taken) and x + reach <= self.right:
            x += reach
        taken.append(x)
        return x

    def within(self) -> Box:
        return self.left - 4, self.strip - 12, self.width - 3, self.bottom


def _lanes(scene: Scene, top: float) -> tuple[dict[str, float], float]:
    """The height of each lane, and where the last one ends. Few lanes get more room, clients a little less."""
    nodes = len(scene.lanes) - len(scene.clients)
    step = next(room for most, room in ((3, 92.0), (5, 78.0), (8, 62.0), (16, 44.0), (40, 26.0), (10**9, 17.0))
                if nodes <= most)  # fmt: skip
    asking = {op.lane for op in scene.operations}
    places: dict[str, float] = {}
    y = top
    for lane in scene.lanes:
        own = step if lane not in scene.clients else min(step, 52.0) if lane in asking else min(step, 34.0)
        y += own / 2
        places[lane] = y
        y += own / 2
    return places, max(y, top + 30)


def gutter(sheet: Sheet) -> Iterable[str]:
    """The names of the lanes."""
    for lane in sheet.scene.lanes:
        name = fit(phrases.line(lane, 60), NAME, sheet.left - 22) or phrases.line(lane, 2)
        client = lane in sheet.scene.clients
        shown = text(sheet.left - 12, sheet.y(lane) + 4, name, NAME, SOFT if client else "", "end",
                     "" if client else ' font-weight="600"')  # fmt: skip
        yield part(shown, ("client " if client else "node ") + phrases.line(lane, 200))


def typical(sheet: Sheet) -> float:
    """How far a message goes to the right until it arrives, in pixels: half of them go farther."""
    if sheet.scene.unit == "step":
        return max(0.9 * (sheet.scale.places[-1] / (sheet.scale.times[-1] - sheet.scale.times[0])), 18.0)
    messages = [message.sent for message in sheet.scene.messages]
    reaches = sorted(sheet.x(sent.arrived) - sheet.x(sent.sent) for sent in messages if sent.arrived is not None)
    return min(max(reaches[len(reaches) // 2], 14.0), 70.0) if reaches else 30.0
