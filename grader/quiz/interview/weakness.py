"""How weak a learner is at each topic, from cards, former interviews and exercises."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from grader.quiz.deck import Card
from grader.quiz.interview.task import Interview
from grader.quiz.schedule import AGAIN, Memory, retrievability

_CARDS, _INTERVIEWS, _EXERCISE = 1.0, 1.5, 0.5  # how much each kind of evidence weighs
_FADES = 0.5  # each interview counts half as much as the one after it


def weakness(
    cards: Sequence[Card],
    memories: Mapping[str, Memory],
    reviews: Iterable[tuple[str, int]],
    interviews: Sequence[Interview],
    exercises: Mapping[str, float],
    now: datetime,
) -> dict[str, float]:
    """0 (sure) to 1 (weak) for each topic of which something is known.

    From the cards: the mean chance of having forgotten one (FSRS's retrievability; one never seen counts one half, once
    any card of the topic was seen), or the share of lapses in the topic's reviews, whichever is larger. From interviews
    (oldest first): the share of points not earned. `exercises`: the share of points reached in each topic's exercise.
    """
    evidence: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for topic, weak in _from_cards(cards, memories, reviews, now).items():
        evidence[topic].append((weak, _CARDS))
    for topic, weak in _from_interviews(interviews).items():
        evidence[topic].append((weak, _INTERVIEWS))
    for topic, share in exercises.items():
        evidence[topic].append((1 - min(1.0, max(0.0, share)), _EXERCISE))
    return {
        topic: sum(weak * weight for weak, weight in found) / sum(weight for _, weight in found)
        for topic, found in evidence.items()
    }


def _from_cards(
    cards: Sequence[Card], memories: Mapping[str, Memory], reviews: Iterable[tuple[str, int]], now: datetime
) -> dict[str, float]:
    topics: dict[str, list[str]] = defaultdict(list)
    for card in cards:
        topics[card.topic].append(card.id)
    ratings: dict[str, list[int]] = defaultdict(list)
    for name, rating in reviews:
        ratings[name].append(rating)
    found = {}
    for topic, names in topics.items():
        if not any(name in memories for name in names):
            continue
        forgotten = sum(
            1 - retrievability(memories[name], max(now, memories[name].last_review)) if name in memories else 0.5
            for name in names
        ) / len(names)
        given = [rating for name in names for rating in ratings[name]]
        found[topic] = max(forgotten, sum(rating == AGAIN for rating in given) / len(given) if given else 0.0)
    return found


def _from_interviews(interviews: Sequence[Interview]) -> dict[str, float]:
    lost: dict[str, float] = defaultdict(float)
    weight: dict[str, float] = defaultdict(float)
    for age, interview in enumerate(reversed(interviews)):
        for done in interview.done:
            lost[done.topic] += (done.most - done.earned) * _FADES**age
            weight[done.topic] += done.most * _FADES**age
    return {topic: lost[topic] / total for topic, total in weight.items() if total}
