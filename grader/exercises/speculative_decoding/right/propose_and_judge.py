"""A round is propose() and judge(). Nothing is drafted for the last place, and accepting takes no division."""
import numpy as np


def pick(weights, rng):
    """One token, with probabilities proportional to the weights. Tokens of weight 0 are never looked at."""
    tokens = np.flatnonzero(weights)
    sums = np.cumsum(weights[tokens])
    place = np.searchsorted(sums, rng.random() * sums[-1], side="right")
    return int(tokens[min(place, len(tokens) - 1)])


def propose(draft, tokens, count, rng):
    """Up to `count` drafts after `tokens`, each with the row from which it was drawn."""
    drafts, rows = [], []
    for _ in range(count):
        row = draft(tokens + drafts)[-1]
        drafts.append(pick(row, rng))
        rows.append(row)
    return drafts, rows


def judge(drafts, rows, truths, rng):
    """What the round brings: the accepted drafts, and one token of the target's."""
    kept = []
    for place, (token, q) in enumerate(zip(drafts, rows)):
        p = truths[place]
        number = rng.random()
        if number * q[token] < p[token]:  # number < p / q, without the division
            kept.append(token)
            continue
        rest = np.maximum(p - q, 0.0)
        if not rest.any():  # only if rounding has eaten the difference
            rest = p
        return kept + [pick(rest, rng)]
    return kept + [pick(truths[len(drafts)], rng)]


def generate(target, draft, prompt, max_new_tokens, k, rng):
    tokens = list(prompt)
    end = len(prompt) + max_new_tokens
    while len(tokens) < end:
        # a round brings one token more than it accepts: the last place needs no draft
        drafts, rows = propose(draft, tokens, min(k, end - len(tokens) - 1), rng)
        truths = target(tokens + drafts)[len(tokens) - 1 :]
        tokens += judge(drafts, rows, truths, rng)
    return tokens[len(prompt) :]
