"""A policy small enough to watch: it sorts three digits, a verifier says whether it did, and GRPO trains it.

The policy writes a digit at a time, as a language model writes tokens; prompts and answers are int64 (n, 3).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

LENGTH, BLANK = 3, 10


class Policy(nn.Module):  # type: ignore[misc]
    """Logits of the next digit, (n, 10), from the three digits of the prompt and what has been written so far."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.embed = nn.Embedding(BLANK + 1, 16)
        self.body = nn.Sequential(
            nn.Linear(2 * LENGTH * 16, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 10)
        )

    def forward(self, prompts: Tensor, written: Tensor) -> Tensor:
        blanks = written.new_full((len(prompts), LENGTH - written.shape[1]), BLANK)
        logits: Tensor = self.body(self.embed(torch.cat([prompts, written, blanks], 1)).flatten(1))
        return logits


def prompts(count: int, seed: int) -> Tensor:
    """Drawn prompts, int64 (count, 3)."""
    return torch.randint(10, (count, LENGTH), generator=torch.Generator().manual_seed(seed))


def verified(asked: Tensor, answers: Tensor) -> Tensor:
    """The reward: 1 where an answer is the prompt in order, otherwise 0; float32 (n,)."""
    return (answers == asked.sort(1).values).all(1).float()


@torch.no_grad()  # type: ignore[untyped-decorator]
def generate(policy: Policy, asked: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sampled answers, and the log-probability of each digit as the sampling policy had it; both (n, 3)."""
    written, logprobs = asked[:, :0], torch.empty(len(asked), 0)
    for _ in range(LENGTH):
        told = torch.log_softmax(policy(asked, written), 1)
        digit = torch.multinomial(told.exp(), 1, generator=generator)
        written, logprobs = torch.cat([written, digit], 1), torch.cat([logprobs, told.gather(1, digit)], 1)
    return written, logprobs


def logprobs(policy: Policy, asked: Tensor, answers: Tensor) -> Tensor:
    """The log-probabilities of given answers, (n, 3), with gradients: no digit waits for the one before."""
    each = [torch.log_softmax(policy(asked, answers[:, :at]), 1) for at in range(LENGTH)]
    return torch.stack(each, 1).gather(2, answers[:, :, None]).squeeze(2)


def accuracy(policy: Policy) -> float:
    """The share of right answers to 1,000 prompts, sampled."""
    asked = prompts(1000, 99)
    return float(verified(asked, generate(policy, asked, torch.Generator().manual_seed(98))[0]).mean())


def base(steps: int = 300, right: float = 0.3) -> Policy:
    """A model before post-training: it has imitated text in which this share of the answers is in order, and the
    others are the digits in any order."""
    torch.manual_seed(0)
    policy, draw = Policy(), torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(policy.parameters(), 3e-3)
    for step in range(steps):
        asked = prompts(256, 1000 + step)
        order = torch.rand(asked.shape, generator=draw).argsort(1)
        sorted_one = torch.rand(len(asked), 1, generator=draw) < right
        answers = torch.where(sorted_one, asked.sort(1).values, asked.gather(1, order))
        optimizer.zero_grad()
        (-logprobs(policy, asked, answers).mean()).backward()
        optimizer.step()
    return policy


def copied(policy: Policy, change: Callable[[Tensor], Tensor] = Tensor.clone) -> Policy:
    """A copy of a policy, each parameter changed: what a generating engine gets."""
    other = Policy()
    other.load_state_dict({name: change(value.detach()) for name, value in policy.state_dict().items()})
    return other
