"""Histories in and out: what JSON lines mean, and one sentence for everything that is no history."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import real_runs
from hypothesis import given
from hypothesis import strategies as st

from grader.nodes.histories import history
from grader.nodes.histories.history import NEVER
from grader.submission import BadRequest


def line(
    process: Any = "c1", type_: Any = "invoke", f: Any = "write", value: Any = 1, time: Any = 1, **more: Any
) -> str:
    return json.dumps({"process": process, "type": type_, "f": f, "key": "x", "value": value, "time": time, **more})


def ok(*args: Any, **more: Any) -> str:
    return line(*args, **{"type_": "ok", "time": 2, **more})


WRITE = line()
BAD = {
    "nothing at all": ("", "holds no operations"),
    "blank lines": ("\n  \n\n", "holds no operations"),
    "only Jepsen's nemesis": (line("nemesis", "info", "start-partition"), "holds no operations"),
    "no JSON": ("invoke write 1", "line 1 is not JSON"),
    "broken JSON": (f"{WRITE}\n{WRITE[:-1]}", "line 2 is not JSON"),
    "a null byte": ("\0", "line 1 is not JSON"),
    "a number that never ends": (line(time=1).replace('"time": 1', f'"time": {"9" * 5000}'), "line 1"),
    "deep nesting": ("[" * 100_000, "line 1"),
    "a list": (f"[{WRITE}]", "line 1 is not a JSON object"),
    "not a number": (line(value=float("nan")), "line 1 is not JSON"),
    "no process": (line(process=None), "line 1: the process must be"),
    "a process that is true": (line(process=True), "line 1: the process must be"),
    "a process that is a list": (line(process=[1]), "line 1: the process must be"),
    "an unknown type": (line(type_="begin"), 'one of invoke, ok, fail, info, not "begin"'),
    "a type that is a list": (line(type_=["ok"]), "line 1: the type must be"),
    "an unknown f": (line(f="increment"), 'one of read, write, cas, append, not "increment"'),
    "no f": (line(f=None), "line 1: f must be"),
    "an f that is a list": (line(f=["read"]), "line 1: f must be"),
    "a key that is a list": (line(key=[1]), "line 1: a key is text or a whole number"),
    "a key that is true": (line(key=True), "line 1: a key is text or a whole number"),
    "a write of nothing": (WRITE.replace('"value": 1, ', ""), "line 1: a write needs a value"),
    "a cas of one value": (line(f="cas", value=1), "the value of a cas is [from, to]"),
    "a cas of three values": (line(f="cas", value=[1, 2, 3]), "the value of a cas is [from, to]"),
    "an append of a number": (line(f="append", value=1), "what is appended must be text"),
    "a completion of nothing": (ok(), "line 1: ok of c1 ends an operation that never began"),
    "two completions": (f"{WRITE}\n{ok()}\n{ok()}", "line 3: ok of c1 ends an operation that never began"),
    "two at once": (
        f"{WRITE}\n{line(f='read')}",
        "line 2: c1 begins an operation while its write of line 1 is still open",
    ),
    "another f": (
        f"{WRITE}\n{ok(f='read')}",
        'line 2: the f is "read", but the operation that c1 began on line 1 has "write"',
    ),
    "another key": (f"{WRITE}\n{ok(key='y')}", "line 2: the key is"),
    "a read of nobody knows what": (
        f"{line(f='read')}\n{ok(f='read').replace(chr(34) + 'value' + chr(34) + ': 1, ', '')}",
        "line 2: a read that is ok must have the value",
    ),
    "a time of text": (line(time="now"), "line 1: the time must be a number"),
    "a time that is true": (line(time=True), "line 1: the time must be a number"),
    "a time before the start": (line(time=-1), "line 1: the time must be a number"),
    "a time after all times": (line(time=10**30), "line 1: the time must be a number"),
    "a time that is missing": (f"{WRITE}\n{ok(time=None)}", "line 2 has no time, but other lines have one"),
    "an end before the beginning": (
        f"{line(time=5)}\n{ok(time=4)}",
        "line 2: c1 goes back in time, from 5 on line 1 to 4",
    ),
    "a beginning before the last end": (
        f"{line(time=5)}\n{ok(time=6)}\n{line(time=5)}",
        "line 3: c1 goes back in time, from 6 on line 2 to 5",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=BAD.keys())
def test_what_is_no_history_is_one_sentence_that_names_the_line(text: str, words: str) -> None:
    with pytest.raises(BadRequest) as refused:
        history.parse(text, "h.jsonl")
    said = str(refused.value)
    assert said.startswith("h.jsonl: ")
    assert words in said
    assert "\n" not in said


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b'{"a": 1}\n\xff\xfe')
    for path, words in (
        (tmp_path / "none", "no such file"),
        (tmp_path, "is a folder"),
        (binary, "line 2 holds bytes that are not UTF-8"),
    ):
        with pytest.raises(BadRequest, match=words):
            history.read(path)


def test_what_every_type_of_completion_means() -> None:
    def status(f: str, value: Any, *ends: str) -> str:
        (found,) = history.parse("\n".join([line(f=f, value=value), *ends]))
        return found.status

    assert status("write", 1, ok()) == "ok"
    assert status("write", 1, line(type_="fail", time=2, error=22)) == "fail"
    assert status("write", 1, line(type_="info", time=2)) == "info"
    assert status("write", 1) == "info"
    cas = line(type_="fail", f="cas", value=[1, 2], time=2)
    assert status("cas", [1, 2], cas) == "fail"
    assert status("cas", [1, 2], cas.replace("}", ', "error": 20}')) == "fail"
    assert status("cas", [1, 2], cas.replace("}", ', "error": 22}')) == "unseen"
    assert status("cas", [1, 2], cas.replace("}", ', "error": [22, "no"]}')) == "unseen"


def test_the_fields_of_an_operation() -> None:
    read, cas = history.parse(
        "\n".join(
            (
                line(1, f="read", value=None, time=1_500_000_000),
                line(2, f="cas", value=[1, [2]], time=1_600_000_000, key=3),
                ok(1, f="read", value=None, time=2_500_000_000),
            )
        )
    )
    assert (read.process, read.f, read.key, read.value, read.result) == (1, "read", "x", None, None)
    assert (read.start, read.end, read.called, read.returned) == (1.5, 2.5, 0, 2)
    assert (cas.key, cas.value, cas.status) == (3, (1, [2]), "info")
    assert (cas.end, cas.returned) == (NEVER, NEVER)
    assert hash(cas) is not None


def test_the_nemesis_of_jepsen_is_no_client() -> None:
    text = f"{line('nemesis', 'info', 'start-partition')}\n{WRITE}\n{line('nemesis', 'info', 'stop')}\n{ok()}"
    assert [one.status for one in history.parse(text)] == ["ok"]


def test_a_process_may_go_on_after_nobody_knows() -> None:
    text = f"{WRITE}\n{line(type_='info', time=2)}\n{line(f='read', time=3)}\n{ok(f='read', time=4)}"
    assert [one.status for one in history.parse(text)] == ["info", "ok"]


def test_lines_in_any_order_are_read_by_their_times_and_equal_times_by_their_lines() -> None:
    mixed = [line("b", time=5), ok("b", time=6), line("a", time=1), ok("a", time=5)]
    first, second = history.parse("\n".join(mixed))
    assert (first.process, second.process) == ("a", "b")
    assert not first.before(second)  # b's call stands before a's return, which has the same time
    first, second = history.parse("\n".join([*mixed[2:], *mixed[:2]]))
    assert first.before(second)


def test_without_times_the_order_of_lines_counts() -> None:
    first, second = history.parse("\n".join(line(p, t, time=None) for p in "ab" for t in ("invoke", "ok")))
    assert first.before(second)


@pytest.mark.parametrize(
    ("times", "seconds"),
    [((3, 7), (3.0, 7.0)), ((0.5, 1.5), (0.5, 1.5)), ((2_000_000, 3_000_000), (0.002, 0.003))],
    ids=["typed by hand", "seconds", "Jepsen's nanoseconds"],
)
def test_the_unit_of_times(times: tuple[float, float], seconds: tuple[float, float]) -> None:
    (found,) = history.parse(f"{line(time=times[0])}\n{ok(time=times[1])}")
    assert (found.start, found.end) == pytest.approx(seconds)


@given(st.integers(0, 2**32), st.sampled_from(["register", "cas-register", "kv"]))
def test_what_is_written_is_read_back_the_same(seed: int, model: str) -> None:
    events = real_runs.events(random.Random(seed), model, 12, lost=0.2)
    assert history.parse(history.dump(events)) == history.pair(events)
