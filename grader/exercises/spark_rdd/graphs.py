"""What the Spark exercises on RDDs are given, what is right, and programs of our own with which runs are compared."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

WORD_COUNT = """
def word_count(lines_rdd, top):
    pairs = lines_rdd.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(lambda a, b: a + b)
    return pairs.takeOrdered(top, key=lambda pair: (-pair[1], pair[0]))
"""
PAGE_RANK = """
def page_rank(links_rdd, iterations):
    pairs = links_rdd.distinct().flatMap(lambda link: [(link[0], link[1]), (link[1], None)])
    links = pairs.groupByKey(4).mapValues(lambda found: [page for page in found if page is not None]).persist()
    ranks = links.mapValues(lambda _: 1.0)
    for _ in range(iterations):
        given = links.join(ranks).flatMap(
            lambda item: [(item[0], 0.0)] + [(page, item[1][1] / len(item[1][0])) for page in item[1][0]])
        ranks = given.reduceByKey(lambda a, b: a + b, 4).mapValues(lambda total: 0.15 + 0.85 * total)
    found = ranks.collectAsMap()
    links.unpersist()
    return found
"""


def words(rng: random.Random, lines: int, vocabulary: int, length: int = 8) -> str:
    """Lines of words, of which some are frequent; with several blanks between them, and empty lines."""
    known = sorted({name(rng, 6, 9) for _ in range(vocabulary)})
    known += [word.capitalize() for word in known[:5]]
    weights = [1 / (rank + 1) for rank in range(len(known))]
    rng.shuffle(known)
    made = [
        (" " * rng.choice((1, 1, 2))).join(rng.choices(known, weights, k=rng.randrange(length * 2)))
        for _ in range(lines)
    ]
    return "\n".join(made) + "\n"


EARLY = 5  # times that each of the top words is in the first lines


def rare_at_the_end(rng: random.Random, top: int, tied: int, others: int = 6000, of_a_line: int = 6) -> str:
    """Lines of many words that are twice each, side by side; the top ones are among the first lines, and once in the
    last one, so that no partition's own best words are enough. The last places of the result, so many as `tied` says,
    are left to the many words, of which each partition has more than it may send."""
    known = list({name(rng, 6, 9): None for _ in range(others + 2 * top)})
    tops, rest = known[: top - tied], known[top - tied :]
    lines = [
        " ".join(word for word in rest[at : at + of_a_line] for _ in range(2)) for at in range(0, others, of_a_line)
    ]
    for number in range(EARLY):
        lines[number] += " " + " ".join(rng.sample(tops, len(tops)))
    lines[-1] += "  " + " ".join(tops)
    return "\n".join(lines) + "\n"


def counted(text: str, top: int) -> list[list[object]]:
    """What word_count must return."""
    found = sorted(Counter(text.split()).items(), key=lambda pair: (-pair[1], pair[0]))
    return [list(pair) for pair in found[:top]]


def name(rng: random.Random, least: int, most: int) -> str:
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(least, most)))


def links(rng: random.Random, pages: int, count: int, length: int = 12) -> str:
    """Lines "source TAB target": some pages without links out, some without links in, and links that come twice."""
    known = sorted({name(rng, length, length) for _ in range(pages)})
    rng.shuffle(known)
    ends, starts = known[: pages // 8], known[pages // 8 : pages // 4]
    found = [
        (rng.choice(known[len(ends) :]), rng.choice([page for page in known if page not in starts]))
        for _ in range(count)
    ]
    found += rng.sample(found, count // 5)
    rng.shuffle(found)
    return "".join(f"{source}\t{target}\n" for source, target in found)


def ranked(text: str, iterations: int) -> dict[str, float]:
    """What page_rank must return (Brin and Page 1998, in the form without a division by the number of pages)."""
    out: dict[str, set[str]] = defaultdict(set)
    for line in text.splitlines():
        source, target = line.split("\t")
        out[source].add(target)
        out.setdefault(target, set())
    ranks = dict.fromkeys(out, 1.0)
    for _ in range(iterations):
        given = dict.fromkeys(out, 0.0)
        for page, targets in out.items():
            for target in targets:
                given[target] += ranks[page] / len(targets)
        ranks = {page: 0.15 + 0.85 * total for page, total in given.items()}
    return ranks
