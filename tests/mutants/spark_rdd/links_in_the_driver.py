"""The links are collected, and ranked in Python.

check: driver
kind: too_many_bytes
"""

def word_count(lines_rdd, top):
    pairs = lines_rdd.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(lambda a, b: a + b)
    return pairs.takeOrdered(top, key=lambda pair: (-pair[1], pair[0]))


def page_rank(links_rdd, iterations):
    links = {}
    for source, target in links_rdd.collect():
        links.setdefault(source, set()).add(target)
        links.setdefault(target, set())
    ranks = dict.fromkeys(links, 1.0)
    for _ in range(iterations):
        given = dict.fromkeys(links, 0.0)
        for page, targets in links.items():
            for target in targets:
                given[target] += ranks[page] / len(targets)
        ranks = {page: damped(total) for page, total in given.items()}
    return ranks


def shared(item):
    """What a page gives to those it links to, and nothing to itself, so that it stays."""
    page, (targets, rank) = item
    return [(page, 0.0)] + [(target, rank / len(targets)) for target in targets]


def damped(total):
    return 0.15 + 0.85 * total
