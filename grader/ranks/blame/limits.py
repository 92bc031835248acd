"""Ranks that took more of the machine than a box has, or reached for what is not in it."""

from __future__ import annotations

from grader.ranks.blame.source import Source
from grader.ranks.program import Ending
from grader.ranks.traffic import Contradiction
from grader.sandbox import endings
from grader.sandbox.client import Beyond
from grader.verdict import Diagnosis

# by the word with which a rank reports an error of the operating system (see `learner.raised`)
REASONS = {
    "disk": "its scratch disk is full: no room for more bytes or more files",
    "file": "one file grew beyond what a file may hold",
    "files": "it has more files open than a process may",
    "processes": "it has more processes and threads than a box may",
    "denied": "a submission sees Python, its packages and a scratch folder of its own, and nothing else of the machine",
}

BEYOND = {
    "memory": "Out of memory: the run used {used:,.0f} MiB where {allowed:,.0f} MiB are allowed, most of it rank "
    "{rank}{place}.",
    "cpu": "The run, with every process it started, used {used:.1f} s of CPU time where {allowed:g} s are allowed"
    "{place}.",
    "": "The run had {used:g} processes and threads where at most {allowed:g} are allowed{place}.",
}
MOST = {"memory": "at most {allowed:,.0f} MiB", "cpu": "at most {allowed:g} s", "": "at most {allowed:g}"}
USED = {"memory": "{used:,.0f} MiB", "cpu": "{used:.1f} s", "": "{used:g} processes and threads"}


def not_what_was_carried(found: Contradiction, source: Source) -> Diagnosis:
    """The sentence for ranks whose messages are not what the kernel saw in their network."""
    return Diagnosis(
        "sandbox_violation",
        f"The messages that were recorded are not what went over the network: {found.told}. Ranks tell each other "
        "things by dist.send and dist.recv alone, and what counts them is not to be touched.",
        rank=found.rank,
        file=source.file,
        expected=f"{found.recorded:,} bytes",
        got=f"{found.counted:,} bytes",
    )


def beyond(passed: Beyond, rank: int, line: int | None, source: Source) -> tuple[Diagnosis, Ending]:
    """The sentence for a box that was ended because all its processes together took too much."""
    kind, text = endings.beyond(passed, BEYOND, rank=rank, place=source.quote(line))
    found = Diagnosis(
        kind, text, rank, source.file, line, endings.beyond(passed, MOST)[1], endings.beyond(passed, USED)[1]
    )
    return found, {"memory": "out_of_memory", "cpu": "timed_out"}.get(passed.limit, "crashed")  # type: ignore[return-value]
