"""Histories of transactions and of operations, as Jepsen writes them: EDN and JSON lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.nodes.histories import edn, history
from grader.nodes.histories.transactions import Op, Transaction, find, reading, stores
from grader.submission import BadRequest

JEPSEN = """\
{:type :invoke, :f :txn, :value [[:append 1 2] [:r 1 nil]], :process 0, :time 1000200, :index 0}
{:type :info, :f :start-partition, :value nil, :process :nemesis, :time 1000201, :index 1}
{:type :invoke, :f :txn, :value [[:r 1 nil]], :process 1, :time 1000300, :index 2}
#jepsen.history.Op{:index 3, :time 1000400, :type :ok, :process 0, :f :txn, :value [[:append 1 2] [:r 1 [2]]]}
{:type :ok, :f :txn, :value [[:r 1 nil]], :process 1, :time 1000500, :index 4} ; nothing was there
{:type :invoke, :f :txn, :value [[:append :b 3]], :process 0, :time 1000600, :index 5}
{:type :fail, :f :txn, :value [[:append :b 3]], :process 0, :time 1000700, :index 6, :error [:duplicate "x"]}
{:type :invoke, :f :txn, :value [[:append 1 4]], :process 2, :time 1000800, :index 7}
{:type :info, :f :txn, :value [[:append 1 4]], :process 2, :time 1000900, :index 8, :error :timeout}
{:type :invoke, :f :txn, :value [[:append 1 5]], :process 3, :time 1000901, :index 9}
"""
READ = [
    Transaction(3, 0, "ok", (Op("append", 1, 2), Op("r", 1, (2,))), 0, 2),
    Transaction(4, 1, "ok", (Op("r", 1, ()),), 1, 3),
    Transaction(6, 0, "fail", (Op("append", "b", 3),), 4, 5),
    Transaction(8, 2, "info", (Op("append", 1, 4),), 6),
    Transaction(9, 3, "info", (Op("append", 1, 5),), 8),
]


def test_jepsens_edn_is_read_as_lines_and_as_one_vector() -> None:
    assert reading.parse(JEPSEN) == READ
    assert reading.parse(f"[{JEPSEN}]") == READ


def test_jepsens_json_is_read() -> None:
    events, _ = history.events_of(JEPSEN)
    assert reading.parse(history.dump(events)) == READ


def test_without_an_index_a_transaction_is_named_by_its_line() -> None:
    events = [
        {name: value for name, value in event.items() if name != "index"} for event in history.events_of(JEPSEN)[0]
    ]
    assert [one.index for one in reading.parse(history.dump(events))] == [4, 5, 7, 9, 10]


def test_registers_read_nil_where_nothing_was_written() -> None:
    text = JEPSEN.replace(":append", ":w").replace("[2]", "2")
    assert reading.parse(text, "rw-register")[1].ops == (Op("r", 1, None),)
    assert [one.kind for one in find(reading.parse(text, "rw-register"), "rw-register")] == []


@pytest.mark.parametrize("workload", ["list-append", "rw-register"])
def test_what_is_written_is_read(workload: str) -> None:
    made = stores.simulate("committed", 3, 100, workload=workload)  # type: ignore[arg-type]
    again = reading.parse(reading.dump(made), workload)
    assert sorted(map(_said, made)) == sorted(map(_said, again))


def _said(one: Transaction) -> str:
    return repr((one.process, one.status, one.ops))


LINE = '{"process": 0, "type": "invoke", "f": "txn", "value": [["append", 1, 2], ["r", 1, null]]}\n'
BAD = {
    "no operations": ("\n", "holds no operations"),
    "not EDN": ("{:type :ok, :value [}", "line 1 is not EDN: } closes nothing"),
    "EDN that ends": (JEPSEN + "{:type [1", "line 11 is not EDN: \\[ is never closed"),
    "no map": ("(1 2)", "line 1 holds 1, which is not a map"),
    "another f": (LINE.replace('"txn"', '"read"'), 'f must be txn, not "read"'),
    "no list": (LINE.replace('[["append", 1, 2], ["r", 1, null]]', "3"), "is a list of operations, not 3"),
    "a register": (LINE.replace("append", "w"), 'an operation of list-append is \\["append", key, value\\]'),
    "a key": (LINE.replace('"append", 1', '"append", [1]'), "line 1: a key is text or a whole number, not \\[1\\]"),
    "a value": (LINE.replace("1, 2", "1, 2.5"), "line 1: a value is text or a whole number, not 2.5"),
    "a read": (
        LINE + LINE.replace("invoke", "ok").replace("null", "7"), "line 2: a read returns a list of texts and whole"
    ),
    "other operations": (
        LINE + LINE.replace("invoke", "ok").replace("1, 2", "1, 3").replace("null", "[2]"),
        "line 2: the operations are not those of the transaction that process 0 began on line 1",
    ),
    "never began": (LINE.replace("invoke", "info"), "ends an operation that never began"),
    "two at once": (LINE + LINE, "begins an operation while its txn of line 1 is still open"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=BAD.keys())
def test_a_bad_history_is_one_sentence(text: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words) as raised:
        reading.parse(text)
    assert "\n" not in str(raised.value)


def test_registers_of_jepsen_are_read_with_and_without_keys() -> None:
    plain = "{:process 0, :type :invoke, :f :write, :value 3}\n{:process 0, :type :ok, :f :write, :value 3}\n"
    (one,) = history.parse(plain)
    assert (one.f, one.key, one.value, one.status) == ("write", None, 3, "ok")
    keyed = (
        "{:process 0, :type :invoke, :f :read, :value [7 nil]}\n"
        "{:process 1, :type :invoke, :f :cas, :value [7 [1 2]]}\n"
        "{:process 0, :type :ok, :f :read, :value [7 1]}\n{:process 1, :type :ok, :f :cas, :value [7 [1 2]]}\n"
    )
    read, cas = history.parse(keyed)
    assert (read.key, read.result, cas.key, cas.value) == (7, 1, 7, (1, 2))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
)


def written(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{written(key)} {written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + " ".join(map(written, value)) + "]"
    return "nil" if value is None else json.dumps(value)


@given(VALUES)
def test_edn_is_read_as_it_was_written(value: object) -> None:
    assert [each for each, _ in edn.values(f" {written(value)} ; that was it")] == [value]


@given(st.text(alphabet='{}[]()#_:;"\\ abn1.+-/,\n'))
def test_any_text_is_edn_or_refused(text: str) -> None:
    try:
        places = [place for _, place in edn.values(text)]
    except edn.NotEdnError as error:
        places = [error.place]
    assert all(0 <= place < len(text) for place in places)


EDN = {
    ":a/b sym -3 +4 5N 1.5 2.5M true nil": ["a/b", "sym", -3, 4, 5, 1.5, 2.5, True, None],
    '#{1 2} (3) #inst "2026" \\a \\newline \\u0041': [[1, 2], [3], "2026", "a", "\n", "A"],
    "#_ #_ 1 2 3 [#_4] #_#t 5 ; 6\n7": [3, [], 7],
    "{:a{:b[1,2]}}": [{"a": {"b": [1, 2]}}],
}


@pytest.mark.parametrize("text", EDN)
def test_edn_has_more_than_json(text: str) -> None:
    assert [each for each, _ in edn.values(text)] == EDN[text]


@pytest.mark.parametrize(
    "text", ["{:a}", "[1)", '"open', "1x", "{[1] 2}", "#t", "#_", ")", "[" * 200, "9" * 5000, '"\\q"']
)
def test_what_is_no_edn_is_refused(text: str) -> None:
    with pytest.raises(edn.NotEdnError):
        list(edn.values(text))
