"""Drafts are cut at the end of the text, what is one token too many is cut off, weights need not be normalised."""

import numpy as np


def pick(weights, rng):
    sums = np.cumsum(weights)
    return int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))


def generate(target, draft, prompt, max_new_tokens, k, rng):
    tokens, end = list(prompt), len(prompt) + max_new_tokens
    while len(tokens) < end:
        start = len(tokens)
        guess, rows = list(tokens), []
        for _ in range(min(k, end - start)):
            rows.append(draft(list(guess))[-1])
            guess.append(pick(rows[-1], rng))
        judged = target(list(guess))
        for place, q in enumerate(rows):
            p, x = judged[start + place - 1], guess[start + place]
            if rng.random() * q[x] < p[x]:
                tokens.append(x)
            else:
                tokens.append(pick(np.maximum(p - q, 0), rng))
                break
        else:
            tokens.append(pick(judged[len(guess) - 1], rng))
    return tokens[len(prompt) : end]
