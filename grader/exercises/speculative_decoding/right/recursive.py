"""A round as a recursion over its drafts, on the way back with what the target says; a class with a context of its own."""


class Chance:
    """Decisions that a random number makes."""

    def __init__(self, rng):
        self.rng = rng

    def says(self, probability):
        return self.rng.random() < probability

    def among(self, weights):
        total = float(sum(weights))
        number, below = self.rng.random(), 0.0
        candidates = sorted((token for token, w in enumerate(weights) if w > 0), key=lambda token: -weights[token])
        for token in candidates[:-1]:
            below += float(weights[token]) / total
            if number < below:
                return token
        return candidates[-1]


class Speculation:
    def __init__(self, target, draft, k, chance):
        self.target, self.draft, self.k, self.chance = target, draft, k, chance

    def round(self, context):
        """The tokens that one call of the target gives after the context."""
        return self._propose(context, [], [])

    def _propose(self, context, drafts, rows):
        if len(drafts) == self.k:
            return self._judge(self.target(context + drafts)[len(context) - 1 :], drafts, rows)
        row = self.draft(context + drafts)[-1]
        return self._propose(context, drafts + [self.chance.among(row)], rows + [row])

    def _judge(self, wanted, drafts, rows):
        if not drafts:
            return [self.chance.among(wanted[0])]
        (p, *later), (x, *others), (q, *rest) = wanted, drafts, rows
        if self.chance.says(min(1.0, float(p[x]) / float(q[x]))):
            return [x, *self._judge(later, others, rest)]
        return [self.chance.among([max(0.0, a - b) for a, b in zip(p, q, strict=True)])]


def generate(target, draft, prompt, max_new_tokens, k, rng):
    speculation, new = Speculation(target, draft, k, Chance(rng)), []
    while len(new) < max_new_tokens:
        new.extend(speculation.round([*prompt, *new]))
    return new[:max_new_tokens]
