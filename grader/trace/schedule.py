"""The picture of a cluster's schedule: a lane for each node, by racks, and what ran on it, in its team's color.

A job that was preempted or lost a node ends with a mark; a node that failed is hatched until it is repaired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from grader.trace import style
from grader.trace.labels import fit, width
from grader.trace.paper import Heading
from grader.trace.style import BAD, GRID, INK, LEGEND_ROW, QUIET, SOFT, text

Became = Literal["finished", "preempted", "failed", "running"]
WIDE = 1000
TEAMS = (("#d3e2f8", "#5b8fd0"), ("#fdf0d5", "#e08a00"), ("#d9efe2", "#2f855a"), ("#e2d9f3", "#8467b8"),
         ("#e7ebef", "#52606d"))  # fmt: skip  # fill and edge


@dataclass(frozen=True)
class Block:
    """A job on its nodes from its start to whatever ended it; times in seconds."""

    job: str
    team: str
    nodes: tuple[str, ...]
    begin: float
    end: float
    became: Became = "finished"


@dataclass(frozen=True)
class Outage:
    """A node that had failed from `begin` to `end`."""

    node: str
    begin: float
    end: float


@dataclass
class Schedule:
    """All of it. `moment` is the time that the picture is about, and `told` the jobs; there the edges are red."""

    racks: Sequence[Sequence[str]]
    teams: Sequence[str]
    blocks: list[Block] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    title: str = ""
    subtitle: str = ""
    moment: float | None = None
    told: tuple[str, ...] = ()
    since: float = 0.0  # where the picture begins and ends
    until: float = 0.0


def around(schedule: Schedule, moment: float, most: int = 40) -> Schedule:
    """The same from some time before `moment` to some time after it: of many blocks with `most` of them, and so that
    the moment is not at the very edge."""
    blocks = sorted(schedule.blocks, key=lambda block: max(block.begin - moment, moment - block.end, 0.0))[:most]
    begins, ends = [block.begin for block in blocks], [block.end for block in blocks]
    schedule.since = min([*begins, moment]) if len(schedule.blocks) > most else 0.0
    before = moment - schedule.since
    schedule.until = min(max([*ends, moment]), moment + 2 * before) if before else max([*ends, moment])
    schedule.moment = moment
    return schedule


def svg(schedule: Schedule) -> str:
    """The picture, as SVG text."""
    lanes = [node for rack in schedule.racks for node in sorted(rack)]
    row = 22.0 if len(lanes) <= 16 else 14.0
    heading = Heading.of(schedule.title, schedule.subtitle, WIDE)
    top = 42.0 + heading.height
    places: dict[str, float] = {}
    y = top
    for rack in schedule.racks:
        for node in sorted(rack):
            places[node] = y
            y += row
        y += 8
    bottom = y - 8
    end = schedule.until or max([block.end for block in schedule.blocks], default=1.0)
    left = 78 + max([width(node, 11) for node in lanes], default=0.0)
    scale = (WIDE - left - 24) / max(end - schedule.since, 1e-9)

    def x(time: float) -> float:
        return round(left + scale * (min(max(time, schedule.since), end) - schedule.since), 1)

    body = heading.draw()
    for time in _ticks(schedule.since, end):
        body.append(f'<path d="M{x(time)} {top - 2}V{bottom}" stroke="{GRID}"/>')
        body.append(text(x(time), top - 7, f"{time:,.10g} s", 10, SOFT, more=' text-anchor="middle"'))
    for number, rack in enumerate(schedule.racks):
        body.append(
            text(12, places[sorted(rack)[0]] + row / 2 + 4, f"rack {number}", 11, INK, more=' font-weight="600"')
        )
        for node in rack:
            body.append(text(left - 6, places[node] + row / 2 + 4, node, 10.5, SOFT, "end"))
            body.append(f'<path d="M{left} {places[node] + row / 2}H{x(end)}" stroke="{QUIET}" stroke-width="0.6"/>')
    shown = [outage for outage in schedule.outages if outage.end > schedule.since and outage.begin < end]
    for outage in shown:
        body.append(_box(x(outage.begin), x(outage.end), places[outage.node], row, style.hatch("r"), BAD))
    for block in schedule.blocks:
        if block.end >= schedule.since and block.begin <= end:
            body += _drawn(schedule, block, x(block.begin), x(block.end), places, row, end)
    if schedule.moment is not None:
        at = x(schedule.moment)
        body.append(
            f'<path d="M{at} {top - 2}V{bottom + 4}" stroke="{BAD}" stroke-width="1.4" stroke-dasharray="4 3"/>'
        )
    entries = list(_legend(schedule, bool(shown)))
    rows = style.legend_rows(entries, WIDE - 32)
    body += style.legend(rows, 16, bottom + 28)
    return style.document(WIDE, bottom + 34 + LEGEND_ROW * len(rows), schedule.title, body)


def _ticks(since: float, until: float) -> Iterator[float]:
    step = 1.0
    while (until - since) / step > 11:
        step *= 2.5 if str(step).strip("0.")[0] == "2" else 2
    at = -(-since // step) * step
    while at <= until:
        yield at
        at += step


def _look(schedule: Schedule, team: str) -> tuple[str, str]:
    return TEAMS[list(schedule.teams).index(team) % len(TEAMS)]


def _box(begin: float, end: float, y: float, tall: float, fill: str, edge: str, more: str = "") -> str:
    wide = max(end - begin, 1.5)
    return (
        f'<rect x="{begin}" y="{y + 1:.1f}" width="{wide:.1f}" height="{tall - 2:.1f}" rx="2" fill="{fill}" '
        f'stroke="{edge}"{more}/>'
    )


def _drawn(
    schedule: Schedule, block: Block, begin: float, end: float, places: dict[str, float], row: float, last: float
) -> list[str]:
    fill, edge = _look(schedule, block.team)
    told = block.job in schedule.told
    found = []
    words = f"{block.job} ({len(block.nodes)})"
    for node in block.nodes:
        more = ' stroke-width="2"' if told else ""
        found.append(_box(begin, end, places[node], row, fill, BAD if told else edge, more))
        label = fit(words, min(10.5, row - 4), end - begin - 8)
        if label == words or len(label) > 3:
            found.append(text(begin + 4, places[node] + row / 2 + 3.6, label, min(10.5, row - 4), INK))
        if block.became in ("preempted", "failed") and block.end <= last:
            mark = (
                style.cross(end, places[node] + row / 2, 3.6)
                if block.became == "failed"
                else _stop(end, places[node], row)
            )
            found.append(mark)
    what = f"job {block.job} of team {block.team}, {len(block.nodes)} nodes, "
    what += f"{block.begin:,.10g} to {block.end:,.10g} s: {block.became}"
    return [f"<g>{''.join(found)}<title>{escape(what)}</title></g>"]


def _stop(x: float, y: float, row: float) -> str:
    """Two strokes: cut off here."""
    return (
        f'<path d="M{x - 3:.1f} {y + 2:.1f}v{row - 4:.1f}M{x:.1f} {y + 2:.1f}v{row - 4:.1f}" stroke="{INK}" '
        f'stroke-width="1.8"/>'
    )


def _legend(schedule: Schedule, failed: bool) -> Iterator[tuple[str, str]]:
    for team in schedule.teams:
        yield style.bar(*_look(schedule, team)), f"team {team}"
    kinds = {block.became for block in schedule.blocks}
    if "preempted" in kinds:
        yield _stop(12, -14, 18), "preempted"
    if "failed" in kinds:
        yield style.cross(12, -4, 4), "a node of the job failed"
    if failed:
        yield style.bar(style.hatch("r"), BAD), "the node has failed"
    if schedule.moment is not None:
        yield f'<path d="M12 -13V3" stroke="{BAD}" stroke-width="1.4" stroke-dasharray="4 3"/>', "this call"
