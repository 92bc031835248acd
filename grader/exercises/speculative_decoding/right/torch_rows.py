"""Rows as tensors, normalized before each draw; one generator yields the tokens for ever."""

from itertools import islice

import torch


def sample(row, rng):
    sums = (row / row.sum()).cumsum(0)
    index = torch.searchsorted(sums, torch.tensor([rng.random()], dtype=row.dtype), right=True)
    return index.clamp(max=len(row) - 1).item()


def endless(target, draft, tokens, k, rng):
    while True:
        base = tokens.shape[0]
        proposal, q = tokens, []
        for _ in range(k):
            q.append(torch.from_numpy(draft(proposal.tolist())[-1]))
            proposal = torch.cat([proposal, torch.tensor([sample(q[-1], rng)])])
        p = torch.from_numpy(target(proposal.tolist()))[base - 1 :]
        count, following = 0, None
        while count < k and following is None:
            x = proposal[base + count]
            ratio = (p[count, x] / q[count][x]).clamp(max=1.0)
            if rng.random() < ratio:
                count += 1
            else:
                following = sample((p[count] - q[count]).clamp(min=0), rng)
        if following is None:
            following = sample(p[k], rng)
        tokens = torch.cat([proposal[: base + count], torch.tensor([following])])
        yield from tokens[base:].tolist()


def generate(target, draft, prompt, max_new_tokens, k, rng):
    return list(islice(endless(target, draft, torch.tensor(prompt), k, rng), max_new_tokens))
