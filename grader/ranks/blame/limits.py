"""Ranks that took more of the machine than a box has, or reached for what is not in it."""

from __future__ import annotations

from grader.ranks.blame.source import Source
from grader.ranks.program import Ending
from grader.ranks.traffic import Contradiction
from grader.verdict import Diagnosis

# by the word with which a rank reports an error of the operating system (see `worker.raised`)
REASONS = {
    "disk": "its scratch disk is full: no room for more bytes or more files",
    "file": "one file grew beyond what a file may hold",
    "files": "it has more files open than a process may",
    "processes": "it has more processes and threads than a box may",
    "denied": "a submission sees Python, its packages and a scratch folder of its own, and nothing else of the machine",
}


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


def beyond(
    limit: str, used: float, allowed: float, rank: int, line: int | None, source: Source
) -> tuple[Diagnosis, Ending]:
    """The sentence for a box that was ended because all its processes together took too much."""
    place = source.quote(line)
    if limit == "memory":
        got, most = f"{used / 2**20:,.0f} MiB", f"{allowed / 2**20:,.0f} MiB"
        text = f"Out of memory: the run used {got} where {most} are allowed, most of it rank {rank}{place}."
        return Diagnosis("out_of_memory", text, rank, source.file, line, f"at most {most}", got), "out_of_memory"
    if limit == "cpu":
        got, most = f"{used:.1f} s", f"{allowed:g} s"
        text = f"The run, with every process it started, used {got} of CPU time where {most} are allowed{place}."
        return Diagnosis("timeout", text, rank, source.file, line, f"at most {most}", got), "timed_out"
    got, most = f"{used:g} processes and threads", f"at most {allowed:g}"
    text = f"The run had {got} where {most} are allowed{place}."
    return Diagnosis("sandbox_violation", text, rank, source.file, line, most, got), "crashed"
