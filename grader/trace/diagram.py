"""Space-time diagrams: ranks across, logical time down, an arrow for every message, blocked stretches marked.

Time is that of `replay`: one unit is one communication round, so that the same run gives the same picture everywhere.
The SVG needs no script and no font of its own, and prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from grader.trace.events import SEND, Operation, Trace
from grader.trace.replay import Timed, replay

LEFT, TOP, COLUMN, BOTTOM = 64, 86, 118, 58
INK, QUIET, MESSAGE, WAIT, BAD, PAPER = "#1f2933", "#9aa5b1", "#1f5fbf", "#f2b134", "#c81e1e", "#ffffff"
MOVING, MOVING_EDGE = "#dbe7f8", "#8fb0de"
STUCK_ROUNDS = 1.6  # how far the bars of ranks that wait for ever reach below the last event


def svg(
    trace: Trace,
    title: str,
    subtitle: str = "",
    cycle: Sequence[int] = (),
    marks: Mapping[int, str] | None = None,
) -> str:
    """The space-time diagram of one call.

    `cycle` names the ranks of a deadlock (drawn in red, with what each waits for), `marks` a word for ranks that broke
    ("raised ValueError").
    """
    return _Drawing(trace, title, subtitle, cycle, dict(marks or {})).text()


class _Drawing:
    def __init__(self, trace: Trace, title: str, subtitle: str, cycle: Sequence[int], marks: dict[int, str]) -> None:
        self.trace, self.title, self.subtitle, self.cycle, self.marks = trace, title, subtitle, cycle, marks
        self.timed: Timed = replay(trace)
        self.stuck = [op for op, _, until in self.timed.waits if until == Timed.never]
        pairs = {(op.rank, op.peer) for op in trace.all_operations() if op.kind == SEND}
        pairs |= {(op.rank, op.peer) for op in self.stuck if op.receives}
        n = trace.ranks
        self.ring_steps = {  # +1 (as N-1 or 1, modulo N) where every rank talks to its right, or to its left
            step % n for step in (1, -1) if n > 2 and all((rank, (rank + step) % n) in pairs for rank in range(n))
        }
        span = self.timed.makespan + (STUCK_ROUNDS if self.stuck or marks else 0.4)
        self.span = max(span, 1.0)
        self.unit = max(min(46.0, 900 / self.span), 9.0)
        self.column = COLUMN if trace.ranks <= 8 else max(46, 940 // trace.ranks)
        legend = 16 + sum(_entry_width(text) for _, text in self._legend_entries())
        self.width = max(LEFT + self.column * trace.ranks + 24, legend)
        self.height = TOP + self.unit * self.span + BOTTOM + (24 if self.stuck else 0)

    def x(self, rank: int) -> float:
        return LEFT + self.column * (rank + 0.5)

    def y(self, time: float) -> float:
        return TOP + self.unit * min(time, self.span)

    def text(self) -> str:
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" height="{self.height:.0f}" '
            f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" role="img" aria-label="{escape(self.title)}" '
            f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}">',
            "<defs>",
            *(_arrowhead(name, colour) for name, colour in (("m", MESSAGE), ("b", BAD))),
            f'<pattern id="w" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            f'<rect width="5" height="5" fill="#fdf1d5"/><line x1="0" y1="0" x2="0" y2="5" stroke="{WAIT}" '
            f'stroke-width="2.2"/></pattern>',
            "</defs>",
            f'<rect width="100%" height="100%" fill="{PAPER}"/>',
            f'<text x="16" y="24" font-size="15" font-weight="600">{escape(self.title)}</text>',
            f'<text x="16" y="42" fill="#52606d">{escape(self.subtitle)}</text>',
            *self._axis(),
            *self._lifelines(),
            *self._blocked(),
            *self._messages(),
            *self._stuck(),
            *self._marks(),
            *self._legend(),
            "</svg>",
        ]
        return "\n".join(parts)

    def _axis(self) -> Iterator[str]:
        rounds = int(self.timed.makespan)
        step = max(1, round(24 / self.unit))
        for number in range(0, rounds + 1, step):
            y = self.y(number)
            yield (
                f'<line x1="{LEFT - 8}" y1="{y:.1f}" x2="{self.width - 16:.0f}" y2="{y:.1f}" stroke="#e4e7eb" '
                f'stroke-width="1"/>'
            )
            yield (
                f'<text x="{LEFT - 14}" y="{y + 4:.1f}" text-anchor="end" fill="#7b8794" font-size="11">{number}</text>'
            )
        yield f'<text x="16" y="{TOP - 14}" fill="#7b8794" font-size="11">round</text>'

    def _lifelines(self) -> Iterator[str]:
        for rank in range(self.trace.ranks):
            x, end = self.x(rank), self.timed.finish[rank]
            bottom = self.y(self.span if end == Timed.never or rank in self.marks else end)
            yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom:.1f}" stroke="{QUIET}" stroke-width="1.5"/>'
            label = f"rank {rank}" if self.column > 60 else str(rank)
            yield (
                f'<text x="{x:.1f}" y="{TOP - 14}" text-anchor="middle" font-weight="600">{label}</text>'
                f'<circle cx="{x:.1f}" cy="{TOP}" r="3" fill="{QUIET}"/>'
            )
            if end != Timed.never and rank not in self.marks:
                yield (
                    f'<line x1="{x - 7:.1f}" y1="{bottom:.1f}" x2="{x + 7:.1f}" y2="{bottom:.1f}" stroke="{INK}" '
                    f'stroke-width="2"><title>rank {rank} returns after round {end:g}</title></line>'
                )

    def _blocked(self) -> Iterator[str]:
        """Hatched while a rank waits and nothing moves for it, light while its own message is on the way."""
        for op, since, until in self.timed.waits:
            moving = max(since, min(self.timed.starts.get(id(op), until), until))
            if op.rank in self.cycle and until == Timed.never:
                yield self._bar(op, since, until, "#fbd5d5", BAD)
            elif moving > since:
                yield self._bar(op, since, moving, "url(#w)", WAIT)
            if until > moving:
                yield self._bar(op, moving, until, MOVING, MOVING_EDGE)

    def _bar(self, op: Operation, since: float, until: float, fill: str, stroke: str) -> str:
        top, bottom = self.y(since), self.y(until)
        return (
            f'<rect x="{self.x(op.rank) - 4.5:.1f}" y="{top:.1f}" width="9" height="{bottom - top:.1f}" '
            f'fill="{fill}" stroke="{stroke}" stroke-width="0.8"><title>{escape(_told(op))}</title></rect>'
        )

    def _messages(self) -> Iterator[str]:
        labels = self.column > 60 and self.unit > 20
        for send, recv in self.trace.messages:
            if id(send) not in self.timed.starts:
                continue
            start, end = self.y(self.timed.starts[id(send)]), self.y(self.timed.ends[id(send)])
            hover = (
                f"<title>{send.size} bytes from rank {send.rank}{_line(send)} to rank {recv.rank}{_line(recv)}</title>"
            )
            yield from self._arrow(send.rank, recv.rank, start, end, "m", MESSAGE, hover)
            if labels:
                yield self._label(send.rank, recv.rank, start, end, f"{send.size} B")

    def _arrow(
        self, source: int, target: int, top: float, bottom: float, head: str, colour: str, hover: str, dash: str = ""
    ) -> Iterator[str]:
        """A straight arrow; one that closes a ring leaves at one edge and comes in at the other."""
        style = f'stroke="{colour}" stroke-width="1.6"' + (f' stroke-dasharray="{dash}"' if dash else "")
        x1, x2 = self.x(source), self.x(target)
        if self._closes_ring(source, target):
            reach = self.column * 0.42
            out, into = (reach, -reach) if source > target else (-reach, reach)
            middle = (top + bottom) / 2
            yield f'<line x1="{x1:.1f}" y1="{top:.1f}" x2="{x1 + out:.1f}" y2="{middle:.1f}" {style}>{hover}</line>'
            yield (
                f'<line x1="{x2 + into:.1f}" y1="{middle:.1f}" x2="{x2 - (4 if out > 0 else -4):.1f}" '
                f'y2="{bottom:.1f}" {style} marker-end="url(#{head})">{hover}</line>'
            )
            return
        shift = 4 if x2 > x1 else -4
        yield (
            f'<line x1="{x1:.1f}" y1="{top:.1f}" x2="{x2 - shift:.1f}" y2="{bottom:.1f}" {style} '
            f'marker-end="url(#{head})">{hover}</line>'
        )

    def _closes_ring(self, source: int, target: int) -> bool:
        return abs(source - target) == self.trace.ranks - 1 and (target - source) % self.trace.ranks in self.ring_steps

    def _label(self, source: int, target: int, top: float, bottom: float, text: str) -> str:
        wraps = self._closes_ring(source, target)
        share = 0.5 if not wraps else 0.0
        x = self.x(source) + (self.x(target) - self.x(source)) * share
        if wraps:
            x += self.column * (0.22 if source > target else -0.22)
        y = top + (bottom - top) * (0.5 if not wraps else 0.25) - 5
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-size="10" fill="{MESSAGE}">{text}</text>'

    def _stuck(self) -> Iterator[str]:
        """What each rank waits for, for ever, as a dashed arrow to the rank it waits for."""
        for op in self.stuck:
            colour = BAD if op.rank in self.cycle else "#b7791f"
            y = self.y(self.span) - self.unit * 0.55
            if op.peer >= 0 and not op.collective:
                hover = f"<title>{escape(_told(op))}, for ever</title>"
                yield from self._arrow(op.rank, op.peer, y, y, "b", colour, hover, dash="4 3")
            what = "send" if op.kind == SEND else "recv" if op.receives else op.name
            line = op.wait_line or op.line
            for row, text in enumerate((f"in {what}", f"line {line}" if line else "")):
                yield (
                    f'<text x="{self.x(op.rank):.1f}" y="{self.y(self.span) + 15 + 13 * row:.1f}" '
                    f'text-anchor="middle" font-size="11" fill="{colour}">{escape(text)}</text>'
                )

    def _marks(self) -> Iterator[str]:
        for rank, word in self.marks.items():
            x, y = self.x(rank), self.y(self.span) - 6
            yield (
                f'<path d="M{x - 6:.1f} {y - 6:.1f} l12 12 m0 -12 l-12 12" stroke="{BAD}" stroke-width="2.4"/>'
                f'<text x="{x:.1f}" y="{y + 21:.1f}" text-anchor="middle" font-size="11" fill="{BAD}">'
                f"{escape(word)}</text>"
            )

    def _legend_entries(self) -> list[tuple[str, str]]:
        """Shape and word of each entry."""
        entries = [
            (
                f'<line x1="0" y1="-4" x2="22" y2="-4" stroke="{MESSAGE}" stroke-width="1.6" marker-end="url(#m)"/>',
                "message",
            ),
            (f'<rect x="6" y="-13" width="9" height="13" fill="url(#w)" stroke="{WAIT}"/>', "waits"),
            (
                f'<rect x="6" y="-13" width="9" height="13" fill="{MOVING}" stroke="{MOVING_EDGE}"/>',
                "its message moves",
            ),
            (f'<line x1="3" y1="-4" x2="19" y2="-4" stroke="{INK}" stroke-width="2"/>', "returns"),
        ]
        if self.stuck:
            colour = BAD if self.cycle else "#b7791f"
            entries.append(
                (f'<line x1="0" y1="-4" x2="22" y2="-4" stroke="{colour}" stroke-width="1.6" stroke-dasharray="4 3" '
                 f'marker-end="url(#b)"/>', "waits for, for ever")
            )  # fmt: skip
        return entries

    def _legend(self) -> Iterator[str]:
        x, y = 16, self.height - 16
        for shape, text in self._legend_entries():
            yield (
                f'<g transform="translate({x} {y:.0f})">{shape}<text x="30" y="0" font-size="11" fill="#52606d">'
                f"{text}</text></g>"
            )
            x += _entry_width(text)


def _entry_width(text: str) -> int:
    return 46 + 7 * len(text)


def _arrowhead(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0.6 L8 4 L0 7.4 z" fill="{colour}"/></marker>'
    )


def _line(op: Operation) -> str:
    return f" (line {op.line})" if op.line else ""


def _told(op: Operation) -> str:
    if op.collective:
        return f"rank {op.rank} waits in {op.name}{_line(op)}"
    to = "any rank" if op.peer < 0 else f"rank {op.peer}"
    verb = "send to" if op.kind == SEND else "receive from"
    line = op.wait_line or op.line
    return f"rank {op.rank} waits to {verb} {to}" + (f" (line {line})" if line else "")
