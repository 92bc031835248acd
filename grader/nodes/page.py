"""A page for one run: what was found, and a picture of every request and of the faults."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from importlib import resources

from grader.nodes import report
from grader.nodes.processes.run import Outcome
from grader.nodes.workloads.workload import Call, calls
from grader.trace import style
from grader.trace.labels import width

WIDTH, HEIGHT = 960, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 44, 40
COLOURS = (style.MESSAGE, style.BAND_EDGE, style.COMPUTE, style.WAIT)
LEAST_MS = 0.1
MOST_POINTS = 5000


def html(outcome: Outcome) -> str:
    """A self-contained page: it loads nothing, and every text in it is escaped."""
    _, word, colour = report.HEADS[outcome.judgement.valid]
    title = f"{word}: {report.title(outcome)}"
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(words).replace(chr(10), '<br>')}</td></tr>"
        for name, words in report.rows(outcome)
    )
    logs = "".join(
        f"<h2>The end of what {escape(node)} wrote to stderr</h2><pre>{escape(text)}</pre>"
        for node, text in report.stderr(outcome).items()
    )
    why = _code(report.printable(outcome.judgement.reason))
    own = "" if outcome.judgement.valid is not False else _own(outcome)
    css = resources.files("grader.trace").joinpath("page.css").read_text("utf-8")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>\n{css}{CSS}</style></head>\n<body><main>\n"
        f'<h1 class="{colour}">{escape(title)}</h1>\n<p class="why">{why}</p>\n'
        f"<figure>{picture(outcome)}</figure>\n{own}"
        f'<div class="table told"><table><tbody>{rows}</tbody></table></div>\n{logs}</main></body></html>\n'
    )


CSS = """
h1 { font-size: 19px; margin: 0 0 6px; } h1.red { color: #c81e1e; } h1.green { color: #1c7c3c; }
h1.yellow { color: #8a4b00; } h2 { font-size: 15px; margin: 20px 0 6px; }
.why { max-width: 960px; margin: 0 0 14px; } .told { margin-top: 16px; } .own { margin-top: 16px; }
.told th { font-weight: 500; color: #52606d; text-align: left; vertical-align: top; white-space: nowrap; }
.told td { text-align: left; white-space: normal !important; max-width: 820px; }
pre { max-width: 960px; overflow: auto; padding: 10px; background: #fff; border: 1px solid #d9dfe5;
  border-radius: 6px; }
"""


def picture(outcome: Outcome) -> str:
    """Every request, by when it was made and how long its answer took, over the faults, as SVG."""
    every = [call for call in calls(outcome.events) if not call.final]
    left_out = max(0, len(every) - MOST_POINTS)
    every = every[:MOST_POINTS]
    end = max([outcome.settings.seconds, *(call.end or 0.0 for call in every)])
    limit = 1000 * outcome.settings.request_seconds
    functions = sorted({call.f for call in every})
    body = [
        style.text(LEFT, 18, "Latency of each request in ms, by the time it was sent", 13),
        *_bands(outcome, end),
        *_axes(end, limit),
        *(_point(call, end, limit, COLOURS[functions.index(call.f) % len(COLOURS)]) for call in every),
        *style.legend(_legend(functions, every), LEFT, HEIGHT + 14),
    ]
    if left_out:
        body.append(style.text(WIDTH - RIGHT, 18, f"the first {MOST_POINTS:,} of {len(every) + left_out:,}", 11,
                               style.SOFT, "end"))  # fmt: skip
    return style.document(WIDTH, HEIGHT + 28, "Latency of every request", body)


def _own(outcome: Outcome) -> str:
    """The workload's own picture of what is wrong, if it has one and the judge saw the whole run."""
    draw = outcome.settings.workload.picture
    if draw is None or outcome.trouble is not None:
        return ""
    drawn = draw(outcome.events, outcome.faults)
    return f'<figure class="own">{drawn}</figure>\n' if drawn else ""


def _x(seconds: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * seconds / end


def _y(ms: float, limit: float) -> float:
    share = math.log(max(ms, LEAST_MS) / LEAST_MS) / math.log(limit / LEAST_MS)
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(share, 1.0)


def _bands(outcome: Outcome, end: float) -> Iterator[str]:
    for number, fault in enumerate(outcome.faults):
        since, until = _x(fault.since, end), _x(min(fault.until, end), end)
        who = ", ".join(fault.nodes)
        yield (
            f'<rect x="{since:.1f}" y="{TOP - 14}" width="{until - since:.1f}" height="{HEIGHT - TOP - BOTTOM + 14}" '
            f'fill="{style.WAIT_PALE}"><title>{escape(fault.label)}: {who}</title></rect>'
        )
        words = fault.label.removeprefix("partition: ")
        short = next((each for each in (words, words.split()[0]) if until - since > width(each, 10) + 4), "")
        if short:
            yield style.text((since + until) / 2, TOP - 3, short, 10, style.ODD, "middle")
        elif len(outcome.faults) <= 40:
            yield style.text((since + until) / 2, TOP - 3, str(number + 1), 10, style.ODD, "middle")


def _axes(end: float, limit: float) -> Iterator[str]:
    bottom = HEIGHT - BOTTOM
    ms = LEAST_MS
    while ms <= limit:
        y = _y(ms, limit)
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{style.GRID}"/>'
        yield style.text(LEFT - 8, y + 4, f"{ms:,g}", 11, style.SOFT, "end")
        ms *= 10
    step = next(size for size in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 300, 3600, math.inf) if end / size <= 12)
    for number in range(int(end / step) + 1 if step < math.inf else 1):
        seconds = number * step if number else 0.0
        yield f'<path d="M{_x(seconds, end):.1f} {bottom}v4" stroke="{style.QUIET}"/>'
        yield style.text(_x(seconds, end), bottom + 18, f"{seconds:g} s", 11, style.SOFT, "middle")
    yield f'<path d="M{LEFT} {bottom}H{WIDTH - RIGHT}" stroke="{style.QUIET}"/>'


def _point(call: Call, end: float, limit: float, colour: str) -> str:
    x = _x(call.start, end)
    about = f"{call.f} at {call.start:.3f} s, {call.node}"
    if call.type == "info" or call.error == 0:
        y, about = _y(limit, limit), f"{about}: no answer"
        return f"<g><title>{escape(about)}</title>{style.cross(x, y, 4)}</g>"
    ms = 1000 * ((call.end or call.start) - call.start)
    fill = colour if call.ok else style.PAPER
    about += f": {ms:.3g} ms" + ("" if call.ok else f", error {call.error}")
    return (
        f'<circle cx="{x:.1f}" cy="{_y(ms, limit):.1f}" r="3" fill="{fill}" stroke="{colour}" stroke-width="1.2">'
        f"<title>{escape(about)}</title></circle>"
    )


def _legend(functions: list[str], every: list[Call]) -> list[list[tuple[float, str, str]]]:
    entries = [(_dot(colour, colour), f) for f, colour in zip(functions, COLOURS, strict=False)]
    if any(call.type == "fail" and call.error != 0 for call in every):
        entries.append((_dot(style.PAPER, style.SOFT), "answered with an error"))
    if any(call.type == "info" or call.error == 0 for call in every):
        entries.append((style.cross(11, -4, 4), "no answer"))
    return style.legend_rows(entries, WIDTH - LEFT - RIGHT)


def _dot(fill: str, stroke: str) -> str:
    return f'<circle cx="11" cy="-4" r="3.5" fill="{fill}" stroke="{stroke}" stroke-width="1.2"/>'


def _code(words: str) -> str:
    """Escaped, with what stands between backticks set as code."""
    pieces = escape(words).split("`")
    return "".join(f"<code>{piece}</code>" if number % 2 else piece for number, piece in enumerate(pieces))
