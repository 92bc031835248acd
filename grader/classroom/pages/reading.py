"""What to read: from an exercise and what went wrong in it to a section of the course.

The headings are those of the chapters' notebooks, word for word; a test holds them against these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from grader import catalog
from grader.registry import find
from grader.submission import BadRequest

_TWO_RANKS = "Point-to-point: two ranks, one message"
_EACH = "Each of them, drawn"
_RING = "The ring"
_NODES = "Inside the node, then between nodes"
_MESSAGE = "What a message costs: α + S·β"

# Headings by exercise; in it by the check's name, else by the kind of diagnosis, else the one under "". For an exercise
# that is not here: the section on the first topic that it practises.
_SECTIONS: dict[str, dict[str, str]] = {
    "ring_all_reduce": {
        "": _RING,
        "deadlock": _TWO_RANKS,
        "race": _TWO_RANKS,
        "left_early": _TWO_RANKS,
        "mismatched_collective": "Collectives: all ranks, one call",
        "forbidden_call": "All-reduce, and the naive one",
        "too_many_bytes": "Measured: bytes",
        "too_few_bytes": "Measured: bytes",
        "too_many_messages": "Measured: time",
        "too_many_rounds": "Measured: time",
        "too_slow": "Measured: time",
    },
    "collectives": {
        "": _EACH,
        "deadlock": _TWO_RANKS,
        "race": _TWO_RANKS,
        "left_early": _TWO_RANKS,
        "wrong_result": "Collectives: all ranks, one call",
        "missing_function": "Collectives: all ranks, one call",
        "too_many_bytes": "All-reduce, and the naive one",
    },
    "hierarchical_all_reduce": {
        "": _NODES,
        "deadlock": _TWO_RANKS,
        "race": _TWO_RANKS,
        "left_early": _TWO_RANKS,
        "too_slow": "Trees, halving and doubling, and hierarchies",
    },
    "cost_model": {
        "": _MESSAGE,
        "all_reduce": 'Often said: "communication time = model size / bandwidth + latency"',
        "measured": 'Often said: "communication time = model size / bandwidth + latency"',
        "laws": "Amdahl and Gustafson",
        "best_world_size": "The ratio that decides",
    },
    "cap_store": {"": "The theorem"},
    "mapreduce": {
        "": "A worker dies: do it again",
        "right": "The model: map, shuffle, reduce",
        "one_reducer": "The model: map, shuffle, reduce",
        "partitioner": "The partitioner, and the trap in Python",
        "shuffle": "The combiner: less to send",
        "combiner": "The combiner: less to send",
        "straggler": "The one that neither works nor dies",
    },
    "quorum_store": {"": "Quorums, and what W + R > N does not give you"},
    "vector_clocks": {"": "Causal consistency: no answer before its question"},
    "gossip_crdt": {"": "Conflicts: two writes, neither knew of the other"},
    "two_phase_commit": {"": "Two-phase commit"},
    "zero_optimizer": {"": "ZeRO: keep each thing once"},
    "gossip_sgd": {"": "Gossip: nobody in the middle"},
    "spark_skew": {"": "One task runs for an hour: skew"},
    "raft": {"": "Consensus: one value, although nodes crash"},
}


@dataclass(frozen=True)
class Reading:
    """A section of a chapter; `section` is empty where it is the chapter as a whole."""

    chapter: str
    title: str
    section: str


def reading(exercise: str, check: str, kind: str) -> Reading | None:
    """What to read for a check of an exercise that lost its points by `kind`; None of an exercise we do not know."""
    try:
        chapter = find(exercise).chapter
    except BadRequest:
        return None
    title, written = _chapter(chapter)
    if not written:
        return Reading(chapter, title, "")
    sections = _SECTIONS.get(exercise) or {"": _first(exercise, chapter)}
    return Reading(chapter, title, sections.get(check) or sections.get(kind) or sections.get("", ""))


@cache
def _first(exercise: str, chapter: str) -> str:
    """The section on the first topic that the exercise practises; empty where there is none."""
    topics = [topic.id for topic in catalog.topics() if topic.exercise == exercise and topic.chapter == chapter]
    told = catalog.sections(chapter)
    return next((told[topic][1] for topic in topics if topic in told), "")


@cache
def _chapter(chapter: str) -> tuple[str, bool]:
    """A chapter's title, and whether it is written."""
    title = next((entry.title for entry in catalog.chapters() if entry.id == chapter), "")
    return title, catalog.chapter_notebook(chapter) is not None


def headings() -> list[tuple[str, str]]:
    """Every heading that pages send people to, with its exercise."""
    return [(exercise, heading) for exercise, sections in _SECTIONS.items() for heading in sections.values()]
