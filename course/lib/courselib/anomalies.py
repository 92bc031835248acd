"""Schedules that hurt, one for each anomaly, and what each isolation level makes of them.

anomalies.matrix()                       a table: anomalies, and levels
anomalies.shown("write skew", "ssi")     the schedule, step by step
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from courselib.interleaved import Played, play
from courselib.isolation import LEVELS
from courselib.svg import Plot
from courselib.table import Table, table
from courselib.timeline import timeline

STEPPED = ("none", "read uncommitted", "read committed", "snapshot", "ssi", "2pl")


@dataclass(frozen=True)
class Scenario:
    """Transactions, values before them, and the order of turns in which the anomaly happens if nothing prevents it."""

    texts: tuple[str, ...]
    order: str
    initial: dict[str, Any]
    about: str


SCENARIOS = {
    "dirty write": Scenario(
        ("w x 1; w y 1; commit", "w x 2; w y 2; commit"), "122112", {"x": 0, "y": 0},
        "Two buyers of one car write its owner x and the invoice y.",
    ),
    "aborted read": Scenario(("w x 1; abort", "r x; commit"), "1212", {"x": 0}, "T2 reads what T1 takes back."),
    "intermediate read": Scenario(
        ("w x 1; w x 2; commit", "r x; commit"), "12112", {"x": 0}, "T2 reads what T1 has not finished."
    ),
    "circular flow": Scenario(
        ("w x 1; r y; commit", "w y 2; r x; commit"), "121212", {"x": 0, "y": 0}, "Each reads what the other one wrote."
    ),
    "lost update": Scenario(
        ("r x; w x +10; commit", "r x; w x +20; commit"), "121122", {"x": 100}, "Two deposits into one account."
    ),
    "read skew": Scenario(
        ("r x; r y; commit", "r x; r y; w x -30; w y +30; commit"), "12222211", {"x": 50, "y": 50},
        "T1 adds two accounts while T2 moves 30 between them.",
    ),
    "phantom": Scenario(
        ("scan d; scan d; commit", "w d3 1; commit"), "12211", {"d1": 1, "d2": 1}, "T1 counts rows twice. T2 adds one."
    ),
    "write skew": Scenario(
        ("r a; r b; w a 0; commit", "r a; r b; w b 0; commit"), "11221122", {"a": 1, "b": 1},
        "Two doctors are on call. Each goes off call, because the other one is on.",
    ),
    "read-only skew": Scenario(
        ("r y; w y +20; commit", "r x; r y; w x -11; commit", "r x; r y; commit"), "22111333222", {"x": 0, "y": 0},
        "T2 withdraws 10 and a fee of 1, because x + y is below 10. T1 deposits 20. T3 only reads.",
    ),
}  # fmt: skip
ADYA = {
    "dirty write": "G0", "aborted read": "G1a", "intermediate read": "G1b", "circular flow": "G1c",
    "lost update": "G-single", "read skew": "G-single", "phantom": "G-single, of a range", "write skew": "G2",
    "read-only skew": "G2",
}  # fmt: skip


def whole(name: str, level: str) -> Played:
    """The schedule to its end, under this level."""
    told = SCENARIOS[name]
    return play(told.texts, told.order + "123" * 10, level, told.initial)


def outcome(played: Played) -> str:
    """In a few words: the anomaly, who was refused, or who had to wait."""
    if played.wrong:
        return f"**{played.wrong}**"
    refused = [step.who for step in played.steps if step.result == "refused"]
    waited = [step.who for step in played.steps if step.result == "waits"]
    if "refused" in played.states:
        return "refuses T" + ", T".join(map(str, refused or [played.states.index("refused") + 1]))
    return "T" + ", T".join(map(str, waited)) + " waits" if waited else "fine"


def matrix(levels: tuple[str, ...] = STEPPED) -> Table:
    """What each level makes of each schedule."""
    rows = [[f"{name} ({ADYA[name]})", *(outcome(whole(name, level)) for level in levels)] for name in SCENARIOS]
    return table(["anomaly", *(LEVELS[level] for level in levels)], rows)


def drawn(played: Played, title: str) -> Plot:
    """A lane for each transaction, a box for each step."""
    rows: dict[str, list[tuple[float, float, str, str]]] = {f"T{k + 1}": [] for k in range(len(played.states))}
    for at, step in enumerate(played.steps):
        kind = step.result if step.result in ("waits", "refused") else "done"
        label = f"{step.what}: {step.result}" if step.what[0] in "rs" and kind == "done" else step.what
        rows[f"T{step.who}"].append((at, at + 0.95, label, kind))
    return timeline(title, rows, unit="", until=max(8, len(played.steps)), kinds=["done", "waits", "refused"])


def shown(name: str, level: str) -> Plot:
    """The schedule under this level, with its end."""
    played = whole(name, level)
    ends = ", ".join(f"{key} = {value}" for key, value in played.final.items())
    return drawn(
        played, f"{name.capitalize()}, {LEVELS[level]}: {ends}" + (f": {played.wrong}" if played.wrong else "")
    )
