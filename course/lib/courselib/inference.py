"""What a language model costs when it answers: FLOPs and bytes of one call, and the seconds that a machine needs.

    step = seconds(LLAMA_70B, H100_NODE, tokens=32, cached=32 * 8192)

The model's weights and cache are cut over all GPUs of the machine. Messages and launches are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """A decoder-only transformer; `kv` is how many numbers a layer keeps for each token, keys and values together."""

    name: str
    parameters: float
    layers: int
    hidden: int
    kv: int
    itemsize: int = 2

    @property
    def weights(self) -> float:
        """Bytes."""
        return self.parameters * self.itemsize

    @property
    def a_token(self) -> int:
        """Bytes of keys and values that a token leaves in all layers."""
        return self.layers * self.kv * self.itemsize


@dataclass(frozen=True)
class Machine:
    """GPUs that serve one model together: FLOP/s and bytes a second of one GPU, bytes of its memory, dollars an hour.

    `flops` is the peak, dense, in bf16. `sustained` is what a GPU delivers while it computes (chapter 01's assumption).
    The price is an assumption of the examples.
    """

    name: str
    gpus: int
    flops: float
    sustained: float
    bandwidth: float
    memory: float
    dollars: float

    @property
    def ridge(self) -> float:
        """FLOPs a byte at which computing takes as long as reading."""
        return self.flops / self.bandwidth

    def room(self, model: Model, share: float = 0.9) -> float:
        """Tokens whose keys and values fit beside the weights, if `share` of the memory is used."""
        return max(0.0, (share * self.gpus * self.memory - model.weights) / model.a_token)


# Llama 3: Dubey et al. 2024, table 3: 8 KV heads of 128 numbers each.
LLAMA_8B = Model("Llama 3 8B", 8e9, 32, 4096, 2 * 8 * 128)
LLAMA_70B = Model("Llama 3 70B", 70e9, 80, 8192, 2 * 8 * 128)
LLAMA_405B = Model("Llama 3 405B", 405e9, 126, 16384, 2 * 8 * 128)
MODELS = {"8B": LLAMA_8B, "70B": LLAMA_70B, "405B": LLAMA_405B}

# Chapter 01, "The machine of this course". Dollars a GPU hour are assumptions.
H100_NODE = Machine("8 × H100", 8, 989e12, 600e12, 3.35e12, 80e9, 2.5)
NVL72 = Machine("NVL72", 72, 2500e12, 1500e12, 8e12, 186e9, 6.0)
MACHINES = {"8xh100": H100_NODE, "nvl72": NVL72}


@dataclass(frozen=True)
class Work:
    """FLOPs and bytes of one call of the model."""

    flops: float
    bytes: float

    @property
    def intensity(self) -> float:
        """FLOPs a byte."""
        return self.flops / self.bytes


def prefill(model: Model, prompt: int) -> Work:
    """Reads one prompt of so many tokens: 2 P FLOPs a token, and 2 L h s for the causal half of attention."""
    attention = 2 * model.layers * model.hidden * prompt**2
    return Work(2 * model.parameters * prompt + attention, model.weights + prompt * model.a_token)


def decode(model: Model, batch: int, context: int) -> Work:
    """Makes one token for each of `batch` sequences, each of which has `context` tokens in the cache."""
    attention = 4 * model.layers * model.hidden * context
    return Work(batch * (2 * model.parameters + attention), model.weights + batch * context * model.a_token)


def roof(machine: Machine, work: Work) -> float:
    """FLOP/s of the whole machine that this work can reach at most (Williams et al. 2009)."""
    return machine.gpus * min(machine.flops, work.intensity * machine.bandwidth)


def seconds(model: Model, machine: Machine, tokens: int, cached: float) -> float:
    """One call with so many new tokens, which reads keys and values of `cached` positions: the longer of two times.

    Computing counts 2 P FLOPs a token at the sustained rate, and leaves attention's own products out.
    """
    computing = 2 * model.parameters * tokens / (machine.gpus * machine.sustained)
    reading = (model.weights + cached * model.a_token) / (machine.gpus * machine.bandwidth)
    return max(computing, reading)


@dataclass(frozen=True)
class Point:
    """A batch size: seconds a token of each reader, tokens a second of all, dollars for a million of them."""

    batch: int
    tpot: float
    rate: float
    dollars: float
    fits: bool


def point(model: Model, machine: Machine, batch: int, context: int) -> Point:
    """Decoding `batch` sequences that have `context` tokens each."""
    tpot = seconds(model, machine, batch, batch * context)
    rate = batch / tpot
    return Point(batch, tpot, rate, machine.gpus * machine.dollars / 3600 / rate * 1e6,
                 batch * context <= machine.room(model))  # fmt: skip


def largest(model: Model, machine: Machine, context: int, goal: float) -> int:
    """The largest batch whose cache fits, and whose time per token is at most `goal` seconds; 0: there is none."""
    low, high = 0, int(machine.room(model) // context)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if point(model, machine, middle, context).tpot <= goal else (low, middle - 1)
    return low


@dataclass(frozen=True)
class Attention:
    """How a layer keeps its keys and values: `numbers` for each token."""

    kind: str
    numbers: int


def attentions(heads: int, kv_heads: int, head: int, latent: int = 512, rope: int = 64) -> Sequence[Attention]:
    """Multi-head, grouped-query, multi-query and multi-head latent attention, in numbers a token and layer.

    MLA keeps one compressed vector and one rotary key for all heads (DeepSeek-V2, 2024, section 2.1: 512 and 64).
    """
    return (
        Attention("MHA", 2 * heads * head),
        Attention("GQA", 2 * kv_heads * head),
        Attention("MQA", 2 * head),
        Attention("MLA", latent + rope),
    )
