"""All random numbers of a round are drawn at its beginning, and the round is worked out at once, in arrays."""

import numpy as np


def generate(target, draft, prompt, max_new_tokens, k, rng):
    done = np.array(prompt, dtype=int)
    while done.size < len(prompt) + max_new_tokens:
        size = done.size
        numbers = [rng.random() for _ in range(2 * k + 1)]
        guess, rows = done, []
        for j in range(k):
            rows.append(draft(guess.tolist())[-1])
            guess = np.append(guess, np.argmax(np.cumsum(rows[-1]) > numbers[j]))
        q = np.stack(rows)
        p = target(guess.tolist())[size - 1 :]
        x = guess[size:]
        at = np.arange(k)
        yes = np.array(numbers[k : 2 * k]) * q[at, x] < p[at, x]
        kept = k if yes.all() else int(np.argmin(yes))
        rest = p[kept] if kept == k else np.clip(p[kept] - q[kept], 0, None)
        last = np.argmax(np.cumsum(rest) > numbers[2 * k] * rest.sum())
        done = np.concatenate([guess[: size + kept], [last]])
    return [int(token) for token in done[len(prompt) :][:max_new_tokens]]
