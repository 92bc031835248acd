"""A decoder-only transformer in numbers: parameters, FLOPs a token, and bytes of one training step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from courselib.figures.shown import figure
from courselib.plot import bars


@dataclass(frozen=True)
class Accounted:
    """Parameters; FLOPs a token (forward and backward) of matrices and of attention; bytes of state and activations."""

    parameters: float
    matrices: float
    attention: float
    state: float
    activations: float
    cache: float  # bytes of keys and values of one token, when the model answers


def accounted(layers: int, hidden: int, sequence: int, batch: int, vocabulary: int = 128_000) -> Accounted:
    """Of a transformer with a feed-forward network of 4h, a head of its own, and plain (not grouped) attention.

    12 L h^2 + 2 V h parameters, of which the embedding is looked up; 6 FLOPs for each of the others, and 12 L h s for
    attention over all positions; 16 bytes of state a parameter (Rajbhandari et al. 2020, section 3.1); 34 h bytes of
    activations a token and layer (Korthikanti et al. 2022, equation 1, without the scores that fused attention does not
    keep); 4 L h bytes a token of keys and values in 16 bits. `batch` is in sequences.
    """
    blocks = 12 * layers * hidden**2
    parameters = blocks + 2 * vocabulary * hidden
    return Accounted(
        parameters,
        6 * (blocks + vocabulary * hidden),
        12 * layers * hidden * sequence,
        16 * parameters,
        34 * hidden * layers * sequence * batch,
        4 * layers * hidden,
    )


def accounting(hidden: int = 8192, layers: int = 80, sequence: int = 8192, batch: int = 1) -> Any:
    """Sliders for the four sizes of a transformer, with what each of them moves."""
    found = accounted(layers, hidden, sequence, batch)
    still = bars(
        "A transformer in numbers: bytes of one training step",
        {"state, 16 bytes a parameter": found.state, "activations, nothing recomputed": found.activations},
        unit="B",
    )
    return figure(
        "accounting",
        still,
        question="At which sequence length is attention half of the FLOPs? Does the number of layers move that point? "
        "And which sliders move the state?",
        answer="At s = 6h, but for the head's part: 49k tokens for h = 8192. Layers do not move it, because both terms "
        "are proportional to L. The state depends on hidden size and layers, two sliders; sequence and batch move "
        "activations only.",
        hidden=hidden, layers=layers, sequence=sequence, batch=batch,
    )  # fmt: skip
