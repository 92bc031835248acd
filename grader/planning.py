"""What the exercise parallel_plan is about: a model, a cluster, and how to train the one on the other. Plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelSpec:
    """A GPT-like transformer, and how much one training step is to take in.

    `layers` transformer layers of width `hidden`, with `heads` attention heads; `sequence` tokens in each sequence, a
    vocabulary of `vocabulary` tokens, and `batch` sequences in one step of the whole cluster.
    """

    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int
    batch: int


@dataclass(frozen=True)
class ClusterSpec:
    """Devices in nodes, and what joins them.

    `memory` is in bytes a device, `flops` what one device sustains in floating-point operations a second. A message
    takes its latency, in seconds, and its bytes divided by the bandwidth, in bytes a second and device: those of the
    node between devices of one node, those of the network between others.
    """

    devices: int
    devices_per_node: int
    memory: float
    flops: float
    node_latency: float
    node_bandwidth: float
    network_latency: float
    network_bandwidth: float


@dataclass(frozen=True)
class Plan:
    """How a model is trained: `dp` data-parallel replicas, each of `pp` pipeline stages, each on `tp` devices.

    Every replica takes its part of the batch in `micro_batches` equal ones. `zero_stage` is 0 to 3; `recompute` is
    whether activations are computed again for the backward pass.
    """

    dp: int
    tp: int
    pp: int
    micro_batches: int
    zero_stage: int
    recompute: bool
