"""Ranks that go on and get nowhere: they ask, sleep, or bring the same values again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grader.ranks.blame.source import Source
from grader.trace.events import SEND
from grader.verdict import Diagnosis


def endless(rank: int, told: Mapping[str, Any], source: Source) -> Diagnosis:
    """The sentence for what a rank counted (see `ranks.endless`). Raises KeyError, TypeError or ValueError for what
    no rank of ours tells."""
    how, line, count = told["how"], int(told["line"]), int(told["count"])
    place = source.quote(line)
    if how == "asked":
        peer, posted = int(told["peer"]), source.quote(int(told["posted"]))
        request = "isend to" if told["kind"] == SEND else "irecv from"
        whom = f"rank {peer}" if peer >= 0 else "any rank"
        text = (
            f"Rank {rank} asked {count:,} times in a row{place} whether its {request} {whom}{posted} is completed. "
            "With gloo, is_completed() of a send or a receive stays False until wait() is called. "
            "Call wait() on that request."
        )
    elif how == "slept":
        seconds = float(told["seconds"])
        times = "in one call" if count == 1 else f"in {count:,} calls in a row"
        text = (
            f"Rank {rank} slept {seconds:,.0f} s of virtual time {times}{place}, and made no communication call in "
            "between. Nothing ended that wait in this run: end it after a deadline, or receive a message from the rank "
            "that it waits for."
        )
    elif how == "repeated":
        also = int(told["ranks"]) - 1
        others = f", and so did the {also} other rank{'s' * (also > 1)} still running" if also else ""
        text = (
            f"Rank {rank} made {count:,} communication calls in a row with data that the same line had carried "
            f"before{place}{others}. The values repeat, so a loop that waits for them to change never ends. "
            "Check the condition that ends the loop, and give it a largest number of iterations."
        )
    else:
        raise ValueError(how)
    return source.found("timeout", text, rank, line or None, "the function returns on every rank", how)
