"""The frame protocol: whatever goes in comes out, and nothing that is no frame gets through."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.ranks.program import Strided, from_bytes, to_bytes
from grader.sandbox import frames

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
)
headers = st.dictionaries(st.text(max_size=6), st.integers() | st.text(max_size=6), max_size=4)
messages = st.builds(frames.Message, headers, st.binary(max_size=64))


@given(st.lists(messages, max_size=5), st.lists(st.integers(1, 20), max_size=30))
def test_frames_come_out_whole_however_the_stream_is_cut(sent: list[frames.Message], cuts: list[int]) -> None:
    stream = b"".join(frames.pack_message(message.header, message.blob) for message in sent)
    reader, got = frames.Reader(), []
    for cut in cuts:
        got += reader.feed(stream[:cut])
        stream = stream[cut:]
    got += reader.feed(stream)
    assert got == sent


@given(st.binary(max_size=200))
def test_rubbish_never_does_anything_but_raise_frame_error(data: bytes) -> None:
    with contextlib.suppress(frames.FrameError):
        list(frames.Reader().feed(data))


@given(trees)
def test_a_value_comes_back(value: object) -> None:
    tree, blob = frames.encode(value, to_bytes)
    assert frames.decode(tree, blob, from_bytes) == value


@given(trees, st.binary(max_size=32))
def test_decoding_any_json_gives_a_value_or_frame_error(tree: object, blob: bytes) -> None:
    with contextlib.suppress(frames.FrameError):
        frames.decode(tree, blob, from_bytes)


def test_tensors_travel_with_their_storage_and_strides() -> None:
    tensor = Strided(np.arange(12.0), (2, 3), (1, 4), 1)
    tree, blob = frames.encode([tensor, {"k": np.arange(3)}], to_bytes)
    again, rest = frames.decode(tree, blob, from_bytes)
    np.testing.assert_array_equal(again.view(), tensor.view())
    np.testing.assert_array_equal(rest["k"].view(), np.arange(3))


FORGED = {
    "a dtype with code": {"dtype": "object", "shape": [1], "stride": [1], "offset": 0},
    "a shape outside the storage": {"dtype": "int64", "shape": [99], "stride": [1], "offset": 0},
    "a negative stride": {"dtype": "int64", "shape": [1], "stride": [-1], "offset": 0},
    "a negative offset": {"dtype": "int64", "shape": [1], "stride": [1], "offset": -8},
    "a shape of strings": {"dtype": "int64", "shape": ["1"], "stride": [1], "offset": 0},
    "no shape": {"dtype": "int64"},
}


@pytest.mark.parametrize("description", FORGED.values(), ids=FORGED.keys())
def test_a_forged_tensor_is_refused(description: dict[str, object]) -> None:
    with pytest.raises(frames.FrameError):
        frames.decode({"$tensor": description, "nbytes": 8}, bytes(8), from_bytes)


def test_a_tensor_with_fewer_bytes_than_announced_is_refused() -> None:
    description = {"dtype": "int64", "shape": [1], "stride": [1], "offset": 0}
    with pytest.raises(frames.FrameError, match="fewer"):
        frames.decode({"$tensor": description, "nbytes": 8}, b"", from_bytes)


def test_an_object_of_no_known_type_is_only_named() -> None:
    tree, blob = frames.encode(object(), to_bytes)
    assert frames.decode(tree, blob, from_bytes) == frames.Other("object")
