"""What each kind of diagnosis is called on a page, and what it means, in one plain line."""

from __future__ import annotations

_MEANING = {
    "wrong_result": ("Wrong result", "The function came to its end, and what it left behind or returned is not right."),
    "deadlock": ("Deadlock", "Some ranks wait for each other, so that none of them can ever go on."),
    "crash": ("Crash", "An exception left the function, or a process ended before the function returned."),
    "timeout": ("Time limit", "The function did not return, although nobody kept it waiting."),
    "out_of_memory": ("Out of memory", "A process asked for more memory than a run may have."),
    "too_many_bytes": ("Too many bytes", "The result is right, but more data travelled than the algorithm needs."),
    "too_few_bytes": ("Too few bytes", "The result is right, but the messages cannot have carried it."),
    "too_many_messages": ("Too many messages", "Every message costs a latency, however small it is. Fewer would do."),
    "too_many_rounds": ("Too many rounds", "Ranks wait for each other where they could talk at the same time."),
    "too_slow": ("Too slow", "In virtual time, which depends on your messages only and not on the machine."),
    "too_much_memory": ("Too much memory", "A rank held more at once than the algorithm needs."),
    "no_overlap": ("No overlap", "Communication and computation took turns where they could go on side by side."),
    "mismatched_collective": (
        "Mismatched collective",
        "Ranks of one group met in different collectives, or in one with different arguments.",
    ),
    "forbidden_call": ("Call not allowed", "The exercise is to build this yourself, and the call does it for you."),
    "race": (
        "Race",
        "A buffer or a request was used before its operation was done. It may come out right, and one day it will not.",
    ),
    "left_early": ("Left early", "A rank was done while others still counted on it."),
    "not_linearizable": ("Not linearizable", "No order of the operations explains what the clients were told."),
    "not_available": ("Not available", "A request that should have been answered was not."),
    "not_converged": ("Not converged", "Replicas that had heard everything still disagreed."),
    "not_atomic": ("Not atomic", "Some parts of one transaction took effect, and others did not."),
    "not_durable": ("Not durable", "Something that was confirmed was gone after a crash."),
    "lost_or_duplicated": ("Lost or duplicated", "A record did not arrive exactly once."),
    "nondeterministic": ("Not deterministic", "The same input with the same seed gave different results."),
    "syntax_error": ("Not valid Python", "Python cannot read the file, so nothing of it could be run."),
    "missing_function": ("Function missing", "Nothing with the name and the parameters that are asked for is defined."),
    "sandbox_violation": (
        "Against the rules of the box",
        "The code went beyond what a submission may do, or its result did not come by messages.",
    ),
    "unsupported_engine": ("Not judged", "This check needs an engine that this grading did not use. It says nothing "
                           "about your code."),
}  # fmt: skip


def title(kind: str) -> str:
    """What people call it: "Too many bytes"."""
    return _MEANING[kind][0] if kind in _MEANING else kind.replace("_", " ").capitalize()


def meaning(kind: str) -> str:
    """One line on what it means; empty for a kind that is not known here."""
    return _MEANING[kind][1] if kind in _MEANING else ""
