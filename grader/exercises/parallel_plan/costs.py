"""The course's cost model of 3D-parallel training, for many plans at once; and what people forget of it.

Model states: Rajbhandari et al., "ZeRO" (2020), section 3: 16 bytes a parameter with mixed-precision Adam. Activations:
Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022), equation 6: sequence
parallelism, and an attention whose scores are not kept but computed again (Dao et al., "FlashAttention", 2022), which is
what selective recomputation is today. So it is always on, and a plan's `recompute` is full recomputation of each layer.
Sequence parallelism's collectives: Korthikanti et al., section 4.2.2, with the all-gathers that the backward pass repeats.
FLOPs, bubble, placement and who sends what: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
Clusters Using Megatron-LM" (2021), sections 2, 3 and the appendix. ZeRO's stage 2 reduces in every micro-batch: DeepSpeed,
issue 2252. Each device has a NIC of its own, and rings between nodes use all of them, as NCCL's do. Nothing overlaps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grader.planning import ClusterSpec, ModelSpec, Plan

Column = NDArray[np.float64]

# What may be forgotten: in a few words, and in a sentence on what is right.
FORGOTTEN = {
    "bubble": ("the pipeline's bubble", "A step takes micro_batches + pp - 1 slots."),
    "nodes": ("that tensor parallelism may cross nodes",
     "A group of tp devices stays inside a node only if tp divides devices_per_node."),
    "straddle": ("that even a group smaller than a node may lie across two nodes",
     "A group stays inside a node only if its span divides devices_per_node."),
    "links": ("the network between nodes",
     "A group stays inside a node only if its span divides devices_per_node: tp for tensor parallelism, tp * pp for "
     "the pipeline, all devices for data parallelism."),
    "tensor": ("the messages of tensor parallelism",
     "Each layer has 10 reduce-scatters and all-gathers in every micro-batch, or 14 with recompute."),
    "sequence": ("the all-gathers that sequence parallelism repeats in the backward pass",
     "Each layer has 10 reduce-scatters and all-gathers in every micro-batch, or 14 with recompute."),
    "nics": ("that each device has a NIC of its own",
     "A ring between nodes uses the NICs of all its members on a node: gcd(tp, devices_per_node) of them for tensor "
     "parallelism, max(1, devices_per_node // (tp * pp)) for data parallelism."),
    "gradients": ("the messages of data parallelism",
     "The data-parallel ranks exchange gradients and parameters in every step, at every ZeRO stage."),
    "again": ("the time that recomputing takes",
     "Recomputing costs another forward pass of the layers, and four more collectives in each layer."),
    "accumulated": ("that ZeRO's stages 2 and 3 communicate in every micro-batch",
     "They cannot wait for the end of the step, because gradients or parameters are not kept whole."),
    "stage_2": ("that ZeRO's stage 2 communicates in every micro-batch",
     "Stage 2 does not keep gradients whole, so each slot has a reduce-scatter of them. Stage 1 has one in a step."),
    "latency": ("the latency of messages", "A ring has n - 1 messages a direction, and each costs the latency."),
    "optimizer": ("Adam's states", "Adam's states take 12 of the 16 bytes of each parameter."),
    "gradient_memory": ("the memory of gradients", "Gradients take 2 of the 16 bytes of each parameter."),
    "activations": ("the memory of activations",
     "A device keeps the activations of L/pp layers, for up to min(pp, micro_batches) micro-batches."),
    "attention": ("attention's own products, which grow with the length of the sequence",
     "The forward pass of a layer takes T (24 h^2 + 4 s h) operations."),
    "again_sent": ("that recomputing repeats the collectives of the forward pass",
     "Each layer has 10 reduce-scatters and all-gathers in every micro-batch, but 14 with recompute."),
    "stages": ("the pipeline's messages",
     "With pp > 1, each slot has 2 messages of 2 T h / tp bytes over one NIC, unless tp * pp divides devices_per_node."),
    "stages_span": ("that the stages of a pipeline are tp devices apart",
     "A pipeline group spans tp * pp devices, not pp."),
    "node_limit": ("that no group is faster between nodes than within one",
     "The bandwidth between nodes is min(node_bandwidth, g * network_bandwidth)."),
    "one_node": ("that data parallelism never leaves the node if all devices are on one node",
     "A data-parallel group spans all devices. If their number divides devices_per_node, it uses the node's link."),
    "fewer_nics": ("that several data-parallel groups share a node's NICs",
     "A data-parallel group has max(1, devices_per_node // (tp * pp)) NICs on a node, not all of them."),
    "embedding_split": ("that the first stage holds the whole embedding",
     "Divide the embedding's V h parameters by tp, but not by pp."),
    "scores": ("that attention does not keep its scores",
     "Activations are 34 bytes for each token and hidden unit of a layer, without the 5 a s / h of the scores."),
    "in_flight": ("that several micro-batches are in the pipeline at once",
     "The first stage of 1F1B keeps the activations of min(pp, micro_batches) micro-batches."),
    "embedding": ("the memory of the embedding", "The first stage also holds the embedding's V h / tp parameters."),
    "working": ("the layer that is being recomputed",
     "With recompute, this layer's activations take memory, too, in addition to the inputs of all layers."),
    "all_sharded": ("that each ZeRO stage shards one thing more",
     "Stage 1 divides Adam's states by dp, stage 2 also the gradients, and only stage 3 the parameters."),
    "few_in_flight": ("that fewer than pp micro-batches may be in flight",
     "The first stage keeps the activations of min(pp, micro_batches) micro-batches, not always of pp."),
    "gibibytes": ("that 1 GB is 10**9 bytes", "80 GB are 80 * 10**9 bytes, not 80 * 2**30."),
    "memory": ("the limit on memory", "Leave out plans that need more than cluster.memory on the first stage."),
}  # fmt: skip

# Plans that are left out of the search, and the sentence to say where a plan is the best of those that are not.
NARROW = {
    "recompute": "This is the fastest plan with recompute. Try plans without it, too: recomputing pays only where "
    "memory is short.",
    "no_recompute": "This is the fastest plan without recompute. Try plans with it, too: the memory that it "
    "saves can be worth a second forward pass.",
    "zero3": "This is the fastest plan with ZeRO's stage 3. Try lower stages, too: they communicate less.",
    "no_tensor": "This is the fastest plan without tensor parallelism. Try tp > 1, too.",
    "whole_node": "This is the fastest plan with tp as large as a node. Try smaller tp, too: smaller groups send less.",
    "no_pipeline": "This is the fastest plan without a pipeline. Try pp > 1, too.",
    "one_micro_batch": "This is the fastest plan with one micro-batch. Try more micro-batches, too: their activations "
    "need less memory, even without a pipeline.",
    "low_stages": "This is the fastest plan with ZeRO's stage 0 or 1. Try stages 2 and 3, too: where memory is short, "
    "they can be worth their messages.",
    "no_stage_2": "This is the fastest plan without ZeRO's stage 2. Try stage 2, too: it saves the memory of gradients.",
    "no_stage_3": "This is the fastest plan without ZeRO's stage 3. Try stage 3, too: it saves the memory of parameters.",
    "powers": "This is the fastest plan with tp a power of two. Try other divisors of heads, too.",
    "within_node": "This is the fastest plan with tp no larger than a node. Try larger tp, too.",
    "room_left": "This is the fastest plan that leaves some memory free. A plan fits also if it needs all the memory.",
}

# Rules that may be left unchecked.
UNCHECKED = ("heads", "layers", "batch", "devices")


@dataclass(frozen=True)
class Plans:
    """Plans side by side, a column for each number."""

    dp: Column
    tp: Column
    pp: Column
    micro_batches: Column
    zero_stage: Column
    recompute: Column

    @classmethod
    def of(cls, plans: list[tuple[int, ...]]) -> Plans:
        return cls(*np.array(plans, np.float64).reshape(-1, 6).T)

    @classmethod
    def one(cls, plan: Plan) -> Plans:
        return cls.of([astuple(plan)])

    def __getitem__(self, index: int) -> Plan:
        dp, tp, pp, micro_batches, zero_stage, recompute = (int(column[index]) for column in self._columns)
        return Plan(dp, tp, pp, micro_batches, zero_stage, bool(recompute))

    @property
    def _columns(self) -> tuple[Column, ...]:
        return self.dp, self.tp, self.pp, self.micro_batches, self.zero_stage, self.recompute


@dataclass(frozen=True)
class Memory:
    """Bytes on the fullest device: what parameters, gradients and Adam's states take, and what activations take."""

    states: Column
    activations: Column

    @property
    def all(self) -> Column:
        return self.states + self.activations


@dataclass(frozen=True)
class Seconds:
    """One step: what the slowest stage does for all its micro-batches, its idle time, and what follows."""

    compute: Column
    tensor: Column
    pipeline: Column
    zero: Column
    bubble: Column
    gradients: Column

    @property
    def all(self) -> Column:
        return self.compute + self.tensor + self.pipeline + self.zero + self.bubble + self.gradients


def narrow(which: str, cluster: ClusterSpec, plans: Plans) -> NDArray[np.bool_]:
    """The plans that are not left out."""
    kept: dict[str, NDArray[np.bool_]] = {
        "recompute": plans.recompute > 0,
        "no_recompute": plans.recompute == 0,
        "zero3": plans.zero_stage == 3,
        "no_tensor": plans.tp == 1,
        "whole_node": plans.tp == min(cluster.devices_per_node, cluster.devices),
        "no_pipeline": plans.pp == 1,
        "one_micro_batch": plans.micro_batches == 1,
        "low_stages": plans.zero_stage <= 1,
        "no_stage_2": plans.zero_stage != 2,
        "no_stage_3": plans.zero_stage != 3,
        "powers": np.log2(plans.tp) % 1 == 0,
        "within_node": plans.tp <= cluster.devices_per_node,
        "room_left": np.ones(plans.tp.shape, bool),  # `times` leaves out those that do not
    }
    return kept[which]


def legal(model: ModelSpec, cluster: ClusterSpec, unchecked: str = "") -> Plans:
    """Every legal plan; and those that break the rule that is not checked."""
    return Plans.of(list(_legal(model, cluster, unchecked)))


def _legal(model: ModelSpec, cluster: ClusterSpec, unchecked: str) -> Iterator[tuple[int, ...]]:
    for tp in divisors(cluster.devices if unchecked == "heads" else model.heads):
        for pp in divisors(cluster.devices if unchecked == "layers" else model.layers):
            dp, left = divmod(cluster.devices, tp * pp)
            left = left if unchecked != "devices" else 0
            if left or not 0 < dp <= model.batch or (model.batch % dp and unchecked != "batch"):
                continue
            for micro_batches in divisors(model.batch // dp):
                for zero_stage in range(4):
                    yield dp, tp, pp, micro_batches, zero_stage, False
                    yield dp, tp, pp, micro_batches, zero_stage, True


def divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def illegal(model: ModelSpec, cluster: ClusterSpec, plan: Plan) -> str:
    """Which rule a plan breaks, in a sentence; empty if it is legal."""
    product = plan.dp * plan.tp * plan.pp
    for name, least in (("dp", 1), ("tp", 1), ("pp", 1), ("micro_batches", 1), ("zero_stage", 0)):
        if getattr(plan, name) < least:
            return f"{name} is {getattr(plan, name)}, but must be at least {least}"
    if product != cluster.devices:
        return f"dp * tp * pp is {product}, but must be the number of devices, {cluster.devices}"
    if model.heads % plan.tp:
        return f"tp = {plan.tp} does not divide the {model.heads} heads"
    if model.layers % plan.pp:
        return f"pp = {plan.pp} does not divide the {model.layers} layers"
    if model.batch % plan.dp:
        return f"dp = {plan.dp} does not divide the batch of {model.batch} sequences"
    if model.batch % (plan.dp * plan.micro_batches):
        return (
            f"A replica's {model.batch // plan.dp} sequences cannot be split into {plan.micro_batches} equal "
            "micro-batches of whole sequences"
        )
    if plan.zero_stage > 3:
        return f"zero_stage is {plan.zero_stage}, but ZeRO has stages 0 to 3 only"
    return ""


def parameters(model: ModelSpec) -> int:
    return 12 * model.hidden**2 * model.layers + model.vocabulary * model.hidden


def _held(model: ModelSpec, plans: Plans, forgot: str = "") -> Column:
    """Parameters on a device of the first stage, which holds the embedding beside its layers."""
    embedding = float(model.vocabulary * model.hidden if forgot != "embedding" else 0)
    if forgot == "embedding_split":
        return (12 * model.hidden**2 * model.layers + embedding) / plans.pp / plans.tp
    return (12 * model.hidden**2 * model.layers / plans.pp + embedding) / plans.tp


def memory(model: ModelSpec, cluster: ClusterSpec, plans: Plans, forgot: str = "") -> Memory:
    held, shard = _held(model, plans, forgot), 1 / plans.dp
    everything = (forgot == "all_sharded") & (plans.zero_stage >= 1)
    for_parameters = np.where((plans.zero_stage >= 3) | everything, 2 * shard, 2)
    for_gradients = np.where((plans.zero_stage >= 2) | everything, 2 * shard, 2)
    for_adam = np.where(plans.zero_stage >= 1, 12 * shard, 12)
    if forgot == "optimizer":
        for_adam = np.zeros_like(shard)
    if forgot == "gradient_memory":
        for_gradients = np.zeros_like(shard)

    tokens = model.sequence * model.batch / (plans.dp * plans.micro_batches)
    scores = 5 * model.heads * model.sequence / model.hidden if forgot == "scores" else 0
    layer = tokens * model.hidden / plans.tp * (34 + scores)
    kept = np.where(plans.recompute > 0, 2 * tokens * model.hidden / plans.tp, layer)
    in_flight = np.minimum(plans.pp, plans.micro_batches) if forgot != "in_flight" else 1.0
    if forgot == "few_in_flight":
        in_flight = plans.pp
    activations = in_flight * model.layers / plans.pp * kept
    if forgot != "working":
        activations = activations + plans.recompute * layer
    if forgot == "activations":
        activations = 0 * activations
    return Memory(held * (for_parameters + for_gradients + for_adam), activations)


def seconds(model: ModelSpec, cluster: ClusterSpec, plans: Plans, forgot: str = "") -> Seconds:
    tokens = model.sequence * model.batch / (plans.dp * plans.micro_batches)
    layers = model.layers / plans.pp
    again = plans.recompute if forgot != "again" else np.zeros_like(tokens)
    attention = 4 * model.sequence * model.hidden if forgot != "attention" else 0
    forward = tokens * (24 * model.hidden**2 + attention)
    logits = 6 * tokens * model.hidden * model.vocabulary
    scores = tokens * 2 * model.sequence * model.hidden  # computed again in the backward pass
    compute = (layers * ((3 + again) * forward + scores) + logits) / (plans.tp * cluster.flops)

    whole = 2 * tokens * model.hidden  # bytes of the activations between two layers
    nics = np.gcd(plans.tp.astype(np.int64), cluster.devices_per_node)
    latency, bandwidth = _link(cluster, plans.tp, nics, forgot, "nodes")
    collectives = 8 if forgot == "sequence" else 10
    repeated = 4 * again if forgot != "again_sent" else 0 * again
    tensor = (collectives + repeated) * layers * _ring(whole, plans.tp, latency, bandwidth)
    if forgot == "tensor":
        tensor = 0 * tensor

    span = plans.tp * plans.pp if forgot != "stages_span" else plans.pp
    latency, bandwidth = _link(cluster, span, np.ones_like(tokens), forgot)
    pipeline = (plans.pp > 1) * 2 * (latency + whole / plans.tp / bandwidth)
    if forgot == "stages":
        pipeline = 0 * pipeline

    nics = np.maximum(1, cluster.devices_per_node // (plans.tp * plans.pp))
    if forgot == "fewer_nics":
        nics = np.full_like(nics, cluster.devices_per_node)
    everywhere = plans.tp * plans.pp * plans.dp
    if forgot == "one_node":
        everywhere = np.full_like(everywhere, np.inf)
    latency, bandwidth = _link(cluster, everywhere, nics, forgot)
    one_way = _ring(2 * _held(model, plans), plans.dp, latency, bandwidth)
    if forgot == "gradients":
        one_way = 0 * one_way
    in_slots, after = ([0.0, 0.0, 1.0, 3.0], [2.0, 2.0, 1.0, 0.0])
    if forgot == "stage_2":
        in_slots, after = ([0.0, 0.0, 0.0, 3.0], [2.0, 2.0, 2.0, 0.0])
    each = np.choose(plans.zero_stage.astype(np.int64), in_slots) * one_way
    once = np.choose(plans.zero_stage.astype(np.int64), after) * one_way

    m = plans.micro_batches
    zero = each if forgot == "accumulated" else m * each
    slot = compute + tensor + pipeline + zero / m
    bubble = (plans.pp - 1) * slot if forgot != "bubble" else 0 * slot
    return Seconds(m * compute, m * tensor, m * pipeline, zero, bubble, once)


def _link(
    cluster: ClusterSpec, span: Column, nics: NDArray[Any], forgot: str, other: str = "links"
) -> tuple[Column, Column]:
    """Latency and bandwidth in a group that spans so many neighbors, and has so many NICs on each of its nodes."""
    inside = cluster.devices_per_node % span == 0
    if forgot == "straddle":
        inside = span <= cluster.devices_per_node
    if forgot in ("links", other):
        inside = np.ones_like(inside)
    latency = np.where(inside, cluster.node_latency, cluster.network_latency)
    if forgot == "latency":
        latency = 0 * latency
    between = (1 if forgot == "nics" else nics) * cluster.network_bandwidth
    if forgot != "node_limit":
        between = np.minimum(cluster.node_bandwidth, between)
    return latency, np.where(inside, cluster.node_bandwidth, between)


def _ring(size: Column, ranks: Column, latency: Column, bandwidth: Column) -> Column:
    """A reduce-scatter or an all-gather; an all-reduce is two of them."""
    return (ranks - 1) * (latency + size / ranks / bandwidth)
