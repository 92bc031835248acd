"""Messages: what is one, and that nothing that a program prints is more than a sentence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.nodes.protocol import ERRORS, Malformed, Message, definite, error_name, parse, quoted

BODY = st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=4)


@given(st.binary() | st.text().map(str.encode))
def test_any_line_is_a_message_or_a_sentence(line: bytes) -> None:
    said = ""
    try:
        parse(line)
    except Malformed as wrong:
        said = str(wrong)
    assert said.isprintable()


@given(st.text(), st.text(), BODY)
def test_a_message_comes_back_as_it_was_written(src: str, dest: str, body: dict[str, object]) -> None:
    body = {key: value for key, value in body.items() if key not in ("msg_id", "in_reply_to")}
    line = Message(src, dest, body).line()
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert parse(line) == Message(src, dest, body)


@pytest.mark.parametrize("line", ['{"src":"a","dest":"b","body":{}}', ' {"src":"a","dest":"b","body":{},"id":7} \r'])
def test_spaces_and_more_keys_do_no_harm(line: str) -> None:
    assert parse(line.encode()) == Message("a", "b", {})


def test_the_place_of_a_mistake_is_told() -> None:
    with pytest.raises(Malformed, match="double quotes at character 2"):
        parse(b"{'src': 'n1'}")


def test_errors_promise_what_maelstrom_says() -> None:
    assert [code for code in ERRORS if definite(code)] == [1, 10, 11, 12, 14, 20, 21, 22, 30]
    assert not definite(1000)
    assert error_name(22) == "22 (precondition-failed)"
    assert error_name(1000) == "1000"


def test_a_quote_is_short_and_printable() -> None:
    assert quoted("a\x1b[2J\u202eb") == r"`a\x1b[2J\u202eb`"
    assert len(quoted("x" * 10**6)) < 120
    assert quoted(b"\xff") == r"`\xff`"
    assert json.dumps(quoted("\ud800")) == r'"`\\ud800`"'
