"""What a watched run left behind, read back."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from courselib.watched import BLOCK, Span, history, records, scalars, spans, step_rows, top


def log(*parts: tuple[int, bytes]) -> bytes:
    """A file of W&B: its own seven bytes, and parts of records."""
    return b":W&B\xe1\xbe\x00" + b"".join(struct.pack("<IHB", 0, len(data), kind) + data for kind, data in parts)


def test_records_in_one_and_in_several_parts() -> None:
    raw = log((1, b"one"), (2, b"cut "), (3, b"in "), (4, b"three"))
    assert [*records(raw)] == [b"one", b"cut in three"]


def test_a_block_whose_end_holds_no_header_is_filled_up() -> None:
    first = b"x" * (BLOCK - 7 - 7 - 3)  # three bytes of the block are left
    raw = log((1, first)) + b"\0" * 3 + struct.pack("<IHB", 0, 4, 1) + b"next"
    assert [*records(raw)] == [first, b"next"]


def test_another_file_is_refused() -> None:
    with pytest.raises(ValueError, match="not a file of W&B"):
        [*records(b"PK\x03\x04")]


def test_what_wandb_logs_is_read_back(tmp_path: Path) -> None:
    module = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    record = module.Record()
    for name, value in (("_step", 7), ("loss/all", 0.25)):
        record.history.item.add(key=name, value_json=json.dumps(value))
    config = module.Record()
    config.config.update.add(key="lr", value_json="0.1")
    path = tmp_path / "run.wandb"
    path.write_bytes(log((1, config.SerializeToString()), (1, record.SerializeToString())))
    assert history(path) == [{"_step": 7, "loss/all": 0.25}]


def test_scalars_of_tensorboard_are_read_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path))
    for step in (0, 1):
        writer.add_event(
            Event(step=step, summary=Summary(value=[Summary.Value(tag="loss", simple_value=0.5 - step / 4)]))
        )
    writer.close()
    assert scalars(tmp_path) == {"loss": [(0, 0.5), (1, 0.25)]}


def event(name: str, since: float, seconds: float, thread: int = 1) -> dict[str, object]:
    return {"ph": "X", "name": name, "ts": since * 1e6, "dur": seconds * 1e6, "tid": thread}


def test_a_trace_becomes_two_rows_a_rank(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    events = [event("backward", 12.0, 2.0), event("gloo:all_reduce", 13.0, 2.0, 2), event("aten::mm", 12.5, 0.5)]
    path.write_text(json.dumps({"traceEvents": [*events, {"ph": "M", "name": "process_name"}]}))
    rows = step_rows([spans(path)], ["backward"])
    assert rows == {
        "rank 0 computes": [(0.0, 2.0, "backward", "backward")],
        "rank 0 sends": [(1.0, 3.0, "all_reduce", "collective")],
    }
    with pytest.raises(ValueError, match="none of forward"):
        step_rows([spans(path)], ["forward"])


def test_time_of_its_own_is_without_what_lies_inside_on_the_same_thread() -> None:
    each = [Span("step", 0, 10, "1"), Span("mm", 1, 4, "1"), Span("copy", 2, 1, "1"), Span("send", 3, 5, "2")]
    assert top(each, 4) == [("step", 1, 6), ("send", 1, 5), ("mm", 1, 3), ("copy", 1, 1)]
    assert top(each, 1, besides=["step"]) == [("send", 1, 5)]
