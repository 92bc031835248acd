"""Lists and loops, no NumPy: no more drafts than can be of use, and tokens are gone through from the last to the first."""


def draw(weights, rng):
    left = rng.random() * sum(weights)
    for token in reversed(range(len(weights))):
        left -= weights[token]
        if left < 0:
            return token
    return max(token for token, weight in enumerate(weights) if weight > 0)


def one_round(target, draft, context, drafts, rng):
    guess, chances = [], []
    while len(guess) < drafts:
        row = list(draft(context + guess)[-1])
        guess.append(draw(row, rng))
        chances.append(row)
    rows = [list(row) for row in target(context + guess)][len(context) - 1 :]
    for place in range(drafts):
        p, q, x = rows[place], chances[place], guess[place]
        if p[x] < q[x] and rng.random() * q[x] >= p[x]:
            missing = [max(0.0, a - b) for a, b in zip(p, q)]
            return guess[:place] + [draw(missing, rng)]
    return guess + [draw(rows[drafts], rng)]


def generate(target, draft, prompt, max_new_tokens, k, rng):
    new = []
    while len(new) < max_new_tokens:
        drafts = min(k, max_new_tokens - len(new) - 1)
        new += one_round(target, draft, list(prompt) + new, drafts, rng)
    return new
