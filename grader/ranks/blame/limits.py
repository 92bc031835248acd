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
    "disk": "The sandbox's disk is full: it has no room for more bytes or more files. Write less, or delete files.",
    "file": "A file in the sandbox has reached the largest size that is allowed. Write smaller files.",
    "files": "A process in the sandbox cannot have more files open. Close the files that you no longer need.",
    "processes": "The sandbox gives this error when it allows no more processes and threads. Start fewer of them.",
    "denied": "A submission may use Python, its packages and its own scratch folder, and nothing else on this machine.",
}

BEYOND = {
    "memory": "The run used {used:,.0f} MiB of memory, and at most {allowed:,.0f} MiB are allowed. Keep fewer or "
    "smaller tensors at a time. Look first at what rank {rank} did when the run was ended{place}.",
    "cpu": "The run and all processes that it started used {used:.1f} s of CPU time, and at most {allowed:g} s are "
    "allowed. Look first at what rank {rank} did when the run was ended{place}.",
    "": "The run had {used:g} processes and threads, and at most {allowed:g} are allowed. Start fewer of them. Look "
    "first at what rank {rank} did when the run was ended{place}.",
}
MOST = {"memory": "at most {allowed:,.0f} MiB", "cpu": "at most {allowed:g} s", "": "at most {allowed:g}"}
USED = {"memory": "{used:,.0f} MiB", "cpu": "{used:.1f} s", "": "{used:g} processes and threads"}


def not_what_was_carried(found: Contradiction, source: Source) -> Diagnosis:
    """The sentence for ranks whose messages are not what the kernel saw in their network."""
    text = (
        f"The messages that were recorded are not what went over the network: {found.told}. Exchange data between "
        "ranks only with torch.distributed's sends and receives, and do not change the code that counts them."
    )
    return source.found(
        "sandbox_violation", text, rank=found.rank, expected=f"{found.recorded:,} bytes", got=f"{found.counted:,} bytes"
    )


def beyond(passed: Beyond, rank: int, line: int | None, source: Source) -> tuple[Diagnosis, Ending]:
    """The sentence for a box that was ended because all its processes together took too much."""
    kind, text = endings.beyond(passed, BEYOND, rank=rank, place=source.quote(line))
    found = Diagnosis(
        kind, text, rank, source.file, line, endings.beyond(passed, MOST)[1], endings.beyond(passed, USED)[1]
    )
    return found, {"memory": "out_of_memory", "cpu": "timed_out"}.get(passed.limit, "crashed")  # type: ignore[return-value]
