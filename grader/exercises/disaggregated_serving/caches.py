"""What a wrong cache is, where the run shows it: another layer's, another request's, or only a part."""

from __future__ import annotations

import numpy as np

from grader.exercises.disaggregated_serving.given import Array, Given, Request

NEAR, ROUNDED = 1e-4, 2e-2  # of the largest value: what float32 differs by, and what a shorter type does


def near(got: Array, right: Array, much: float = NEAR) -> bool:
    """Whether two caches are the same but for rounding."""
    if got.shape != right.shape or not np.isfinite(got).all():
        return False
    return bool(np.abs(got - right).max() <= much * np.abs(right).max())


def what(given: Given, request: int, wrong: list[int], caches: list[Array]) -> str:
    """What a wrong cache is, where the run shows it."""
    own, i = given.requests[request], wrong[0]
    got, right = caches[i], own.caches[i]
    for other, each in given.requests.items():
        if other != request and all(near(one, its) for one, its in zip(caches, each.caches, strict=True)):
            return (
                f"All caches are those of request {other}. Send the request's id along with its caches, and keep the "
                "two together on the decoder."
            )
    if len(caches) > 1 and caches[0].any() and all(near(one, caches[0]) for one in caches[1:]):
        return (
            f"All {len(caches)} caches hold the same values. Give the cache of each layer a buffer of its own, and do not "
            "receive into it again before model.decode()."
        )
    for j, cache in enumerate(own.caches):
        if near(got, cache):
            return (
                f"Layer {i} got the cache of layer {j} of the same request. Pass the caches in the order of the layers."
            )
    for other, each in given.requests.items():
        for j, cache in enumerate(each.caches):
            if near(got, cache):
                return (
                    f"Layer {i} got the cache of layer {j} of request {other}. Two requests are mixed on the way: give "
                    "each request buffers of its own, and receive its layers from one source and in one order."
                )
    if near(got[::-1], right):
        return f"In layer {i}, keys and values have changed places. Do not change the cache on the way."
    return _part(own, i, got, right)


def _part(own: Request, i: int, got: Array, right: Array) -> str:
    if not np.isfinite(got).all():
        return (
            f"Layer {i} holds values that are not finite. Wait for its receive before model.decode() reads the buffer."
        )
    n = right.shape[1]
    if not got.any():
        return (
            f"Layer {i} is all zeros. Check that its message arrived in this buffer, and wait for the receive before "
            "model.decode() reads it."
        )
    there = [near(got[:, p], right[:, p]) for p in range(n)]
    first = there.index(False) if False in there else n
    if 0 < first < n:
        rest = "The rest are zeros" if not got[:, first:].any() else "The rest hold something else"
        return (
            f"In layer {i}, only the first {first} of {n} positions are right. {rest}. Send the whole tensor "
            f"(2, {n}, {own.caches[0].shape[2]})."
        )
    if near(got[0], right[0]) or near(got[1], right[1]):
        which, rest = ("keys", "values") if near(got[0], right[0]) else ("values", "keys")
        return f"In layer {i}, only the {which} are right, and the {rest} are not. Send the whole tensor."
    if near(got, right, ROUNDED):
        return f"Layer {i} is right to about 1 % only. Send the float32 values unchanged."
    return (
        f"Layer {i} is none of the caches that prefill_layer() returned. Check which messages were received into this "
        "buffer, and that all had arrived before model.decode()."
    )


def why_too_many(sizes: list[int], caches: list[int]) -> str:
    """What to do where a decoder was sent messages of these sizes, and decoded from caches of those."""
    sizes, caches = sorted(sizes), sorted(caches)
    if sizes == caches:
        return (
            "Each cache was sent once, in a message of its own. The rest is in messages without a cache. Send fewer "
            "of them, or shorter ones: an int64 takes 8 bytes."
        )
    if sizes == [2 * size for size in caches]:
        return "Each message is twice as long as its cache. Send the float32 cache as it is."
    if len(sizes) == len(caches) and len(set(sizes)) == 1 < len(set(caches)):
        return (
            f"Each message has {sizes[0]:,} bytes, and the caches have {caches[0]:,} to {caches[-1]:,}. Send each cache as it "
            "is, without padding."
        )
    return "Send the caches of a request to the one decoder that decodes it, and once."
