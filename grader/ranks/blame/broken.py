"""Ranks that broke: an exception, a process that died, a call that is not allowed, a loop, a fault."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Mapping, Sequence

from grader.ranks.blame.limits import REASONS
from grader.ranks.blame.source import Source
from grader.ranks.program import Ending
from grader.sandbox import endings
from grader.sandbox.endings import Raised
from grader.says import in_bytes
from grader.trace.events import Trace, match
from grader.verdict import Diagnosis, Kind

UNKNOWN_TYPE = "Invalid scalar type"  # so says gloo
FOR_NOTEBOOKS = tuple(f"name '{name}' is not defined" for name in ("check", "play"))
GAPS = ("input tensor has to be contiguous", "Tensors must be contiguous")  # so says gloo, of messages and collectives
INPLACE = "has been modified by an inplace operation"  # so says torch's autograd
HINT = " Hint: enable anomaly detection"  # and so it goes on, at length
RETURNS = "the function returns on every rank"
ENDINGS: dict[str, Ending] = {"out_of_memory": "out_of_memory", "left_early": "left_early", "deadlock": "deadlocked"}


def raised(rank: int, error: Raised, world: int, source: Source, others: int) -> Diagnosis:
    """The sentence for an exception in the learner's code."""
    place = source.quote(error.line)
    if error.why == "forbidden":
        return forbidden(rank, error.text.split(" at line ")[0], error.line, source)
    if error.why == "syntax":
        text = f"{source.file} is not valid Python: {error.type}: {error.text}{place}."
        return source.found("syntax_error", text, line=error.line)
    kind: Kind
    if error.why in ("stuck", "ended"):
        kind = "timeout" if error.why == "stuck" else "crash"
        text = f"{source.file}: {error.text}{place}."
        text += " Look for a loop or a call that never ends." if error.why == "stuck" else ""
        return source.found(kind, text, rank, error.line)
    also = f", and so did {others} other rank{'s' if others > 1 else ''}" if others else ""
    who = f"Rank {rank} of {world}" if world > 1 else "Your code" if error.line else "The run"
    text = f": {_first_line(error.text.partition(HINT)[0])}" if error.text else ""
    kind = "out_of_memory" if error.why == "memory" else "crash"
    reason = ""
    if error.why in REASONS:
        kind, reason = "sandbox_violation", f" {REASONS[error.why]}"
    elif error.text.startswith(UNKNOWN_TYPE):
        reason = (
            " Gloo's collectives take only bool, uint8, int8, int32, int64, float16, bfloat16, float32 and float64. "
            "Pass the bytes of any other type as tensor.view(torch.uint8)."
        )
    elif error.text in FOR_NOTEBOOKS:
        reason = (
            " check() and play() are for the notebook's other cells. Call them there, not in the cell that is graded."
        )
    elif error.text.startswith(GAPS):
        reason = (
            " The elements of this tensor do not lie next to each other in memory, and gloo sends and receives only "
            "tensors whose elements do. Pass x.contiguous(), a copy in which they do, and copy what you receive back."
        )
    elif INPLACE in error.text:
        reason = (
            " A forward computation used this tensor, and autograd needs the values that the tensor had then. The "
            "tensor was changed in place before the backward pass used it. Look for copy_, add_ or an optimizer's "
            "step in between, and make that change after the backward pass."
        )
    noted = f" {error.note}" if error.note else ""
    text = f"{who} raised {error.type}{text}{place}{also}.{noted}{reason}"
    return source.found(kind, text, rank, error.line, RETURNS if world > 1 else "the function returns", error.type)


def _first_line(text: str) -> str:
    """With the lines that go on with it: torch sets "but got <class 'NoneType'> instead" below, indented."""
    first, *others = text.splitlines() or [""]
    more = itertools.takewhile(lambda line: line[:1].isspace() and line.strip(), others)
    line = " ".join([first, *(each.strip() for each in more)]).rstrip(".")
    return line if len(line) <= 200 else line[:197] + "..."


def died(rank: int, status: int, trace: Trace | None, source: Source) -> Diagnosis:
    """The sentence for a process that ended without returning; without a `trace` where that ended with it."""
    how = endings.died(status)
    made = trace.all_operations() if trace else []
    misfit = next(((s, r) for s, r in match(made) if r.rank == rank and s.size > r.size), None)
    last = trace.operations(rank)[-1:] if trace else []
    line = last[0].line if last else None
    if misfit:
        send, recv = misfit
        why = (
            f"It receives {in_bytes(recv.size)} from rank {send.rank}{source.quote(recv.line)}, but rank {send.rank} "
            f"sends {in_bytes(send.size)}{source.quote(send.line)}. Give both tensors the same size."
        )
        line = recv.line
    else:
        none = "It had not communicated." if trace else ""
        why = f"Its last communication was {last[0].name}{source.quote(line)}." if last else none
        if status >= 0:
            why += " Let your function return instead of ending the process."
    if status == -signal.SIGSEGV and not misfit:
        why += " SIGSEGV means that it used memory it does not have. Check every tensor whose storage you freed."
    text = f"Rank {rank}'s process {how} before it was done. {why.strip()}".strip()
    return source.found("left_early" if status == 0 else "crash", text, rank, line, RETURNS, how)


def forbidden(rank: int, call: str, line: int | None, source: Source) -> Diagnosis:
    """The sentence for a collective in an exercise about point-to-point messages, or for what does the whole job."""
    if not call.startswith("dist."):
        text = f"Rank {rank} used {call}{source.quote(line)}. The exercise is to build this yourself, so do not use it."
        return source.found("forbidden_call", text, rank, line, f"no {call}", call)
    text = (
        f"Rank {rank} called {call}{source.quote(line)}. In this exercise, only send, recv, isend, irecv and "
        "batch_isend_irecv are allowed. Remove this call, or do its work with these."
    )
    return source.found("forbidden_call", text, rank, line, "point-to-point calls only", call)


def timed_out(rank: int, line: int | None, trace: Trace, source: Source, how: str) -> Diagnosis:
    """The sentence for a rank that does not come back."""
    done = len(trace.operations(rank))
    talked = f"after {done} communication call{'s' if done != 1 else ''}" if done else "before any communication call"
    there = "there " if source.quote(line) else ""
    text = (
        f"Rank {rank} did not return: it {how}{source.quote(line)}, {talked}. Look {there}for a loop or a "
        "call that never ends or takes too long."
    )
    return source.found("timeout", text, rank, line, "the function returns", how)


def killed(
    fault: str, rank: int, waits: Sequence[str], did: Mapping[str, Sequence[int]], source: Source, line: int | None
) -> Diagnosis:
    """The sentence for a rank that a fault killed.

    `waits` tells of those that wait for it for ever; `did` of what the others raised or, where some wait, that they
    returned, and on which ranks.
    """
    then = [f"{ranks(which)} {what}" for what, which in list(did.items())[:3]] + [*waits[:3]]
    end = " Nothing will end this wait." if waits else ""
    text = f"As you asked, {fault}. {_sentences(then) or 'The others went on without it.'}{end}"
    got = "ranks that wait forever" if waits else "ranks that raised" if did else "they went on"
    return source.found("crash", text, rank, line, "the others find out, and go on or end", got)


def _sentences(told: Sequence[str]) -> str:
    return " ".join(f"{each[:1].upper()}{each[1:].rstrip('.')}." for each in told)


def ranks(numbers: Sequence[int]) -> str:
    """ "rank 3", "ranks 0, 2 and 3", "ranks 0, 2, 3 and 60 more"."""
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    if len(numbers) > 6:
        return f"ranks {', '.join(map(str, numbers[:3]))} and {len(numbers) - 3} more"
    return f"ranks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def stranded(faults: Sequence[str], waiters: Sequence[str], rank: int, line: int | None, source: Source) -> Diagnosis:
    """The sentence for ranks that wait forever, in a run where a message or a link had a fault."""
    text = (
        f"As you asked, {', and '.join(faults)}. {_sentences(waiters[:3])} Nothing will end this wait. To survive "
        "such a fault, a program needs a timeout and a retry."
    )
    return source.found(
        "deadlock", text, rank, line, "the message, or a way to go on without it", "a wait that never ends"
    )
