"""What a database was seen to do, for the terminal, and the words that the page shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.nodes.databases.run import Crossed, Result
from grader.nodes.databases.stage import ABORTED, LOST
from grader.nodes.histories.history import called
from grader.nodes.histories.transactions import LEVELS, Anomaly, Transaction, telling
from grader.says import counted, listed

HEADS = ("crossing", "what the clients do", "what came of it")


def verdict(result: Result) -> str:
    """ "nothing that serializable forbids", "not repeatable-read: G2-item" """
    if result.valid:
        return f"nothing that {result.level} forbids"
    return f"not {result.level}: {', '.join(one.kind for one in result.forbidden)}"


def rest(result: Result) -> str:
    """The strongest levels that the history may have; "" where nothing was found that any of them forbids."""
    if not result.anomalies:
        return ""
    if not result.kept:
        return "These anomalies are forbidden at every level of isolation."
    last = {LEVELS[name].forbids: name for name in result.kept}  # of two that forbid the same, the later one
    strongest = [name for forbids, name in last.items() if not any(forbids < other for other in last)]
    return f"The history is consistent with {listed(strongest)}."


def title(result: Result) -> str:
    return f"{result.database} at {result.said}, {result.wanted.workload}, seed {result.seed}"


def rows(result: Result) -> Iterator[tuple[str, str]]:
    """Figures, by name."""
    ends, refusals = result.ends, result.refusals
    own = refusals.get(ABORTED, 0)
    told = [f"{ends['ok']} committed"]
    told += [f"{count} refused ({why})" for why, count in refusals.items() if why != ABORTED and LOST not in why]
    lost = sum(count for why, count in refusals.items() if LOST in why) - ends["info"]
    told += [f"{own} {ABORTED}"] * (own > 0) + [f"{lost} whose connection was lost before the commit"] * (lost > 0)
    told += [f"{ends['info']} of unknown outcome (the connection was lost at the commit)"] * (ends["info"] > 0)
    yield "transactions", f"{len(result.transactions)} by {counted(result.wanted.clients, 'client')}: {listed(told)}"
    yield "waited", f"{counted(result.waited, 'transaction')} waited for another one's lock"
    kinds = [one.kind for one in result.anomalies if one not in result.forbidden]
    if kinds:
        yield "also found", f"{', '.join(kinds)}, which {result.level} allows"


def outcome(crossed: Crossed) -> str:
    """What came of a crossing: the anomalies, or what the database did instead."""
    if crossed.kinds:
        without = "" if crossed.crossing.kind in crossed.kinds else f"no {crossed.crossing.kind}, but "
        return without + ", ".join(crossed.kinds)
    done = []
    if crossed.waited:
        done.append("one waited" if crossed.waited == 1 else f"{crossed.waited} waited")
    for why in dict.fromkeys(crossed.refused):
        count = crossed.refused.count(why)
        done.append(f"{'one was' if count == 1 else f'{count} were'} refused ({why})")
    return "no anomaly" + (f": {listed(done)}" if done else "")


def titled(result: Result) -> Iterator[tuple[Anomaly, str]]:
    """Each anomaly, the forbidden ones first, with its title."""
    rest = [one for one in result.anomalies if one not in result.forbidden]
    yield from ((one, telling.title(one.kind)) for one in result.forbidden)
    yield from ((one, f"{telling.title(one.kind)}, which {result.level} allows") for one in rest)


def _row(index: int, by_index: Mapping[int, Transaction]) -> tuple[str, str, str]:
    one = by_index[index]
    ended = {"ok": "", "fail": "; did not happen", "info": "; nobody knows whether it happened"}[one.status]
    return f"T{index}", called(one.process), "; ".join(map(telling.op, one.ops)) + ended


def show(result: Result) -> None:
    """Print it."""
    console = Console(highlight=False)
    mark, colour = ("✓", "green") if result.valid else ("✗", "red")
    console.print(f"[bold {colour}]{mark} {escape(verdict(result))}[/]  {escape(title(result))}")
    if rest(result):
        console.print(Padding(Text(rest(result)), (0, 0, 0, 2)))
    by_index = {one.index: one for one in result.transactions}
    for anomaly, name in titled(result):
        console.print(Padding(Text(name, style="bold"), (1, 0, 0, 2)))
        console.print(Padding(Text(telling.sentence(anomaly, by_index)), (0, 0, 0, 2)))
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for index in dict.fromkeys(anomaly.indices):
            table.add_row(*map(Text, _row(index, by_index)))
        console.print(Padding(table, (0, 0, 0, 4)))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in HEADS:
        table.add_column(head)
    for each in result.crossed:
        style = "red" if any(one.kind in each.kinds for one in result.forbidden) else ""
        table.add_row(each.crossing.name, each.crossing.about, Text(outcome(each), style=style))
    console.print(Padding(table, (1, 0, 1, 2)))
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    for name, words in rows(result):
        table.add_row(name, Text(words))
    console.print(Padding(table, (0, 0, 0, 2)))
