"""Quantities as people type them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.quiz.units import quantity, written

SAME = [
    ("16", "TB", 16), ("16 TB", "TB", 16), ("16TB", "TB", 16), ("16e12 B", "TB", 16), ("16000 GB", "TB", 16),
    ("16,000 GB", "TB", 16), ("128 Tbit", "TB", 16), ("16 TiB", "TB", 17.592), ("16 trillion bytes", "TB", 16),
    ("~16 tb", "TB", 16), ("2 GB/s", "GB/s", 2), ("16 Gbit/s", "GB/s", 2), ("2000 MB/s", "GB/s", 2),
    ("120 GB/min", "GB/s", 2), ("5.5 min", "s", 330), ("0.5 h", "min", 30), ("264 days", "days", 264),
    ("13,000 kW", "MW", 13), ("35e6 USD", "million USD", 35), ("35 million", "million USD", 35),
    ("35 million USD", "million USD", 35), ("35", "million USD", 35), ("23.8 %", "%", 23.8), ("24 percent", "%", 24),
    ("5787 GPUs", "GPUs", 5787), ("1 gpu", "GPUs", 1), ("1.8e25 FLOP", "FLOP", 1.8e25), ("18 YFLOP", "FLOP", None),
    ("20 k", "samples/s", 20000), ("20 k samples/s", "samples/s", 20000),
    ("20000 samples/s", "samples/s", 20000),
    ("-.5", "s", -0.5), ("", "s", None),
    ("many", "s", None), ("16 TB", "s", None), ("1e999", "s", None), ("3 days", "h", 72), ("≈ 1e6", "events", 1e6),
    ("1 million events", "events", 1e6), ("200 times", "times", 200), ("200x", "times", 200),
    ("11.6 thousand", "events/s", 11600),
    ("200 Gb/s", "GB/s", 25), ("200 Gbps", "GB/s", 25), ("200 GBps", "GB/s", 200), ("112 Gb", "GB", 14),
    ("100 mb/s", "MB/s", 100), ("1/3", "probability", 1 / 3), ("33%", "probability", 0.33), ("20x", "times", 20),
    ("20×", "times", 20), ("16*7", "GB", 112), ("2^13", "MB", 8192), ("1/50 s", "ms", 20), ("about 20", "s", 20),
    ("20 milliseconds", "s", 0.02), ("20 ms.", "s", 0.02), ("86.8 hrs", "h", 86.8), ("819.2k", "samples/s", 819200),
    ("0.8 million", "samples", 800000), ("(3 + 4) * 2 GB", "GB", 14), ("1 000 000", "events", 1e6), ("007", "s", 7),
    ("1,5", "s", None), ("3-4", "GB", None), ("1e-3", "s", 0.001), ("3 4", "s", None), ("1/0", "s", None),
    ("9**9", "s", None), ("9^9^9^9", "s", None),
    ("5 /", "s", None), ("1e5e5", "s", None), ("(" * 90, "s", None),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "unit", "value"), SAME)
def test_a_quantity_is_understood_or_refused(typed: str, unit: str, value: float | None) -> None:
    if value is None:
        with pytest.raises(ValueError, match=r"Write the answer in|Write it like"):
            quantity(typed, unit)
    else:
        assert quantity(typed, unit) == pytest.approx(value, rel=1e-4)


@given(st.text(max_size=30), st.sampled_from(["TB", "GB/s", "%", "GPUs", "million USD"]))
def test_whatever_is_typed_is_a_number_or_a_sentence(typed: str, unit: str) -> None:
    try:
        quantity(typed, unit)
    except ValueError as error:
        said = str(error)
    else:
        said = "a number."
    assert said.endswith(".")


@pytest.mark.parametrize(
    ("value", "text"), [(16.0, "16"), (20000.0, "20,000"), (1e6, "1,000,000"), (1.8e25, "1.8e25"), (6.2, "6.2")]
)
def test_a_number_is_written_to_be_read(value: float, text: str) -> None:
    assert written(value) == text
    assert quantity(text, "s") == value
