"""What came of a run, for people: rows of words and figures, for the terminal and for a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.nodes.processes.run import Outcome
from grader.nodes.workloads.figures import figures
from grader.nodes.workloads.workload import calls
from grader.says import counted
from grader.trace.story import Fault

HEADS = {True: ("✓", "right", "green"), False: ("✗", "wrong", "red"), "unknown": ("?", "unknown", "yellow")}
COUNTED = {
    "lost": "lost",
    "never_read": "never read",
    "stale": "read late",
    "duplicated": "duplicated",
    "wrong": "wrong",
}
SHOWN_FAULTS = 8
SHOWN_LINES = 12  # of a node's stderr


def title(outcome: Outcome) -> str:
    settings = outcome.settings
    return (
        f"{settings.workload.name} on {counted(settings.nodes, 'node')}, seed {settings.seed}, {outcome.seconds:.1f} s"
    )


def rows(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """What there is to say: a name, and words with figures."""
    found = figures(calls(outcome.events))
    counts = {f: sum(kinds.values()) for f, kinds in found["by_function"].items()}
    yield "requests", ", ".join(f"{count} {f}" for f, count in counts.items()) or "none"
    if found["availability"] is not None:
        ends = {kind: sum(each[kind] for each in found["by_function"].values()) for kind in ("ok", "fail", "info")}
        other = round(found["availability"] * found["operations"]) - ends["ok"]
        told = [f"{ends['ok']} ok"]
        told += [f"{other} saw another value or no key"] * (other > 0)
        told += [f"{ends['fail'] - other} refused or given up"] * (ends["fail"] > other)
        told += [f"{ends['info']} of unknown outcome"] * (ends["info"] > 0)
        yield "answered", f"{found['availability']:.1%} ({', '.join(told)})"
    if found["latency_ms"]:
        yield "latency", spread(found["latency_ms"])
    yield from _messages(outcome)
    if outcome.faults:
        bands = [f"{each.label} {each.since:.1f}-{each.until:.1f} s{_whom(each)}" for each in outcome.faults]
        more = [f"and {len(bands) - SHOWN_FAULTS} more"] if len(bands) > SHOWN_FAULTS else []
        yield "faults", "\n".join(bands[:SHOWN_FAULTS] + more)
    if outcome.settings.workload.final is not None and outcome.trouble is None:
        after = "after the faults" if outcome.faults else "after the last request"
        yield "agreed", f"{outcome.convergence:.2f} s {after}" if outcome.convergence is not None else "never"
    yield from _own(outcome.judgement.figures)


def spread(values: dict[str, float]) -> str:
    """Median, p95 and maximum, in milliseconds."""
    shown = {name: f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for name, value in values.items()}
    return ", ".join(f"{name} {shown[name]} ms" for name in ("median", "p95", "max"))


def _whom(fault: Fault) -> str:
    return "" if fault.pairs else f" ({', '.join(fault.nodes)})"


def _messages(outcome: Outcome) -> Iterator[tuple[str, str]]:
    counts = outcome.messages()
    if counts["per_operation"] is not None:
        services = f", {counts['with_services']} with services" if counts["with_services"] else ""
        yield (
            "messages",
            (
                f"{counts['per_operation']:.1f} per request ({counts['between_nodes']} between nodes{services}), "
                f"{counts['all_per_operation']:.1f} with the clients' own"
            ),
        )
    befell = [f"{counts[key]} {key.replace('_', ' ')}" for key in ("dropped", "duplicated", "cut_off") if counts[key]]
    if counts["undelivered"]:
        befell.append(f"{counts['undelivered']} to nodes that were down or did not read")
    if befell:
        yield "of these", ", ".join(befell)


def _own(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The workload's own figures."""
    for key, word in COUNTED.items():
        if key in found:
            values = found.get(f"{key}_values", [])
            which = ", ".join(json.dumps(value)[:40] for value in values) + (
                ", ..." if found[key] > len(values) else ""
            )
            yield word, f"{found[key]}" + (f" ({which})" if values else "")
    if "isolation" in found:
        kinds = ", ".join(found["anomalies"]) or "none"
        yield "anomalies", f"{kinds} (of those that {found['isolation']} forbids)"
    if "commits" in found:
        back = found["committed_offsets_back"]
        again = f"; on {counted(back, 'key')} committed offsets went back, so messages are read again" if back else ""
        mistakes = ", ".join(f"{count} {what}" for what, count in found["mistakes"].items())
        if mistakes:
            yield "mistakes", f"{mistakes} (of each key each kind once)"
        yield "logs", f"{counted(found['keys'], 'key')}, {counted(found['commits'], 'commit')} of offsets{again}"
    if found.get("stable_latency_ms"):
        yield "until on all nodes", spread(found["stable_latency_ms"])
    if found.get("final_reads"):
        reads = ", ".join(f"{node} {value}" for node, value in found["final_reads"].items())
        low, high = found["possible"]
        yield "final reads", f"{reads}; expected {low if low == high else f'a sum from {low} to {high}'}"


def stderr(outcome: Outcome) -> dict[str, str]:
    """The last lines that the node in trouble wrote to stderr; of all nodes where none answered."""
    if outcome.right:
        return {}
    nodes = [outcome.trouble.node] if outcome.trouble else list(outcome.logs)
    if outcome.trouble is None and any(call.ok for call in calls(outcome.events)):
        nodes = []
    ends = {node: "\n".join(outcome.logs[node].rstrip().splitlines()[-SHOWN_LINES:]) for node in nodes}
    return {node: printable(text) for node, text in ends.items() if text}


def printable(text: str) -> str:
    """Without control characters: a program may print anything."""
    return "".join(each if each == "\n" or each.isprintable() else "�" for each in text.expandtabs())


def waiting(words: str) -> AbstractContextManager[object]:
    """Say on a terminal, while it takes, what is going on."""
    console = Console(stderr=True)
    return console.status(words) if console.is_terminal else nullcontext()


def show(outcome: Outcome) -> None:
    """Print it."""
    console = Console(highlight=False)
    mark, word, colour = HEADS[outcome.judgement.valid]
    console.print(f"[bold {colour}]{mark} {word}[/]  {escape(title(outcome))}")
    console.print(Padding(Text(printable(outcome.judgement.reason)), (0, 0, 1, 2)))
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, words in rows(outcome):
        table.add_row(name, Text(words))
    console.print(Padding(table, (0, 0, 0, 2)))
    for node, text in stderr(outcome).items():
        console.print(f"\n[bold]The end of what {node} wrote to stderr:[/]")
        console.print(Text(text))
