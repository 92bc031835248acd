"""What each kind of diagnosis is called on a page, and what it means, in one plain line."""

from __future__ import annotations

_MEANING = {
    "wrong_result": ("Wrong result", "The code ran to its end, but its result is wrong."),
    "deadlock": ("Deadlock", "Some ranks wait for each other, so none of them can ever continue."),
    "crash": ("Crash", "The code raised an exception, or its process ended before the code was done."),
    "timeout": ("Time limit", "The code did not finish within its limit."),
    "out_of_memory": ("Out of memory", "A process asked for more memory than a run may have."),
    "too_many_bytes": ("Too many bytes", "More data was sent than the algorithm needs."),
    "too_few_bytes": ("Too few bytes", "Less was sent than any correct solution has to send."),
    "too_many_messages": ("Too many messages", "Every message costs one latency, however small. Fewer are enough."),
    "too_many_rounds": ("Too many rounds", "The code took more rounds of messages, or passes over data, than needed."),
    "too_slow": (
        "Too slow",
        "The code takes longer than it needs. Time is simulated or counted, so this machine's speed does not matter.",
    ),
    "too_much_memory": ("Too much memory", "More memory or disk was in use than the algorithm needs."),
    "no_overlap": ("No overlap", "Communication and computation took turns, but they could run at the same time."),
    "mismatched_collective": (
        "Mismatched collective",
        "Ranks of one group called different collectives, or the same collective with different arguments.",
    ),
    "forbidden_call": ("Call not allowed", "The exercise asks you to solve this without such a call."),
    "race": (
        "Race",
        "Something was used or changed before an operation on it was complete. Such code may be right in one run and "
        "wrong in the next.",
    ),
    "left_early": ("Left early", "A rank ended while other ranks still needed it."),
    "not_linearizable": ("Not linearizable", "No order of the operations explains the answers that the clients got."),
    "not_available": ("Not available", "A request was refused or not answered in time, but it had to be served."),
    "not_converged": ("Not converged", "Replicas still disagree at the end, or a training did not reach its goal."),
    "not_atomic": ("Not atomic", "Some parts of one transaction took effect, and others did not."),
    "not_durable": ("Not durable", "Something was confirmed, and after a crash it was gone."),
    "lost_or_duplicated": ("Lost or duplicated", "Something that must count exactly once was lost or counted twice."),
    "nondeterministic": ("Not deterministic", "The same input with the same seed gave different results."),
    "syntax_error": ("Not valid Python", "Python cannot parse the file, so none of it was run."),
    "missing_function": ("Function missing", "No function or class with the required name and parameters is defined."),
    "sandbox_violation": (
        "Not allowed in the sandbox",
        "The code did something that a submission may not do, or its result did not come through messages.",
    ),
    "unsupported_engine": ("Not judged", "This grading could not judge the check. This says nothing about your code."),
}  # fmt: skip


def title(kind: str) -> str:
    """What people call it: "Too many bytes"."""
    return _MEANING[kind][0] if kind in _MEANING else kind.replace("_", " ").capitalize()


def meaning(kind: str) -> str:
    """One line on what it means; empty for a kind that is not known here."""
    return _MEANING[kind][1] if kind in _MEANING else ""
