"""From a stuck or broken run to a sentence: who waits for whom, who is to blame, and at which of the learner's lines.

Pure functions over the trace and the ranks' last states; the same for every engine.
"""

from grader.ranks.blame.broken import ENDINGS, died, forbidden, killed, raised, stranded, timed_out
from grader.ranks.blame.buffers import misread, race, unreceived, used_after_destroy
from grader.ranks.blame.collectives import Made, made_apart, mismatched
from grader.ranks.blame.endless import endless
from grader.ranks.blame.limits import beyond, not_what_was_carried
from grader.ranks.blame.source import Source, waits
from grader.ranks.blame.waiting import cycle, deadlock, left_early, stuck

__all__ = [
    "ENDINGS",
    "Made",
    "Source",
    "beyond",
    "cycle",
    "deadlock",
    "died",
    "endless",
    "forbidden",
    "killed",
    "left_early",
    "made_apart",
    "mismatched",
    "misread",
    "not_what_was_carried",
    "race",
    "raised",
    "stranded",
    "stuck",
    "timed_out",
    "unreceived",
    "used_after_destroy",
    "waits",
]
