"""An endless generator cut by islice, tokens in descending order, no number drawn where p >= q, always k drafts even near the end."""

from itertools import islice

import numpy as np


class Dice:
    """Draws tokens from rows, in descending order of the tokens."""

    def __init__(self, rng):
        self.rng = rng

    def token(self, row):
        left = self.rng.random() * float(row.sum())
        last = None
        for x in range(len(row) - 1, -1, -1):
            if row[x] <= 0:
                continue
            last = x
            left -= float(row[x])
            if left < 0:
                break
        return last

    def agrees(self, p, q):
        return p >= q or self.rng.random() < p / q


def stream(target, draft, text, k, dice):
    """Tokens of the target for ever. `text` grows with them."""
    while True:
        known = len(text)
        trial, proposals = text[:], []
        while len(proposals) < k:
            row = draft(trial[:])[-1]
            x = dice.token(row)
            proposals.append((x, row))
            trial.append(x)
        verdicts = iter(target(trial)[known - 1 :])
        for (x, q), p in zip(proposals, verdicts):
            agreed = dice.agrees(p[x], q[x])
            text.append(x if agreed else dice.token(np.clip(p - q, 0, None)))
            yield text[-1]
            if not agreed:
                break
        else:
            text.append(dice.token(next(verdicts)))
            yield text[-1]


def generate(target, draft, prompt, max_new_tokens, k, rng):
    return list(islice(stream(target, draft, list(prompt), k, Dice(rng)), max_new_tokens))
