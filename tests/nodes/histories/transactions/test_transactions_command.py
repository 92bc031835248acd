"""`rankup history check` on transactions, as people use it: words, pages, JSON and bad requests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import planted
import pytest

from grader.nodes.histories.transactions import find, picture, reading, report, stores, telling

RANKUP = str(Path(sys.executable).parent / "rankup")


def check(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [RANKUP, "history", "check", *map(str, arguments)]
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "400"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


@pytest.fixture
def skew(tmp_path: Path) -> Path:
    path = tmp_path / "skew.jsonl"
    path.write_text(reading.dump(planted.LISTS["write skew"].transactions()))
    return path


def test_a_right_history_is_status_0(skew: Path) -> None:
    done = check(skew, "--model", "txn-list-append", "--isolation", "snapshot-isolation", "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert said.pop("seconds") >= 0
    holds = said.pop("holds")
    assert "strong-snapshot-isolation" in holds
    assert "serializable" not in holds
    assert said == {"valid": True, "transactions": 3, "model": "txn-list-append", "isolation": "snapshot-isolation",
                    "anomalies": []}  # fmt: skip


def test_a_wrong_history_is_status_1_with_the_witness_in_words_and_a_page(skew: Path) -> None:
    out = skew.with_suffix(".html")
    done = check(skew, "--model", "txn-list-append", "--html", out)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("not serializable  3 transactions, model txn-list-append, ")
    assert lines[1] == "The history is consistent with strong-snapshot-isolation."
    assert lines[3] == "✗ G2-item (a cycle with two or more anti-dependencies)"
    assert lines[4].startswith(
        "T4 did not see T5's append of 2 to x, so T4 came before T5. But T5 did not see T4's append of 1 to y, so T5 "
        "came before T4. So T4 would have to come before itself, which is impossible."
    )
    assert lines[5:] == ["  T4: read x: []; append 1 to y", "  T5: read y: []; append 2 to x"]
    assert "</html>" in out.read_text()
    assert sorted(path.name for path in skew.parent.iterdir()) == ["skew.html", "skew.jsonl"]


def test_json_has_the_anomalies(skew: Path) -> None:
    done = check(skew, "--model", "txn-list-append", "--isolation", "strict-serializable", "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["valid"]) == (1, False)
    assert [(one["kind"], one["transactions"]) for one in said["anomalies"]] == [("G2-item", [4, 5])]


BAD_REQUESTS = {
    "no such level": (["skew.jsonl", "--model", "txn-list-append", "--isolation", "good"], "no isolation level"),
    "another model's option": (["skew.jsonl", "--model", "txn-list-append", "--steps", "5"], "--steps is not for"),
    "consistency": (["skew.jsonl", "--model", "txn-list-append", "--consistency", "sequential"], "Use --isolation"),
    "isolation of a register": (["skew.jsonl", "--model", "register", "--isolation", "serializable"], "--consistency"),
    "no such model": (["skew.jsonl", "--model", "txn", "--isolation", "serializable"], "no model is called 'txn'"),
    "keys of lists": (["skew.jsonl", "--model", "txn-list-append", "--linearizable-keys"], "for the model txn-rw"),
    "another workload": (["skew.jsonl", "--model", "txn-rw-register"], "line 1: an operation of rw-register is"),
    "no file": (["none.edn", "--model", "txn-list-append"], "none.edn: no such file"),
    "twice": (["twice.jsonl", "--model", "txn-list-append"], "twice.jsonl: 1 is appended to y twice, by transactions"),
    "not EDN": (["broken.edn", "--model", "txn-list-append"], "broken.edn: line 1 is not EDN: { is never closed"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "words"), BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_a_bad_request_is_one_sentence_and_status_2(
    skew: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(skew.parent)
    Path("twice.jsonl").write_text(skew.read_text().replace('"append", "x", 2', '"append", "y", 1'))
    Path("broken.edn").write_text("{:type :ok")
    done = check(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert words in done.stderr


@pytest.mark.parametrize("name", planted.LISTS)
def test_lists_are_told_and_drawn(name: str) -> None:
    _told_and_drawn(planted.LISTS[name], "list-append")


@pytest.mark.parametrize("name", planted.REGISTERS)
def test_registers_are_told_and_drawn(name: str) -> None:
    _told_and_drawn(planted.REGISTERS[name], "rw-register")


def _told_and_drawn(one: planted.Planted, workload: str) -> None:
    history = one.transactions()
    by_index = {each.index: each for each in history}
    for anomaly in find(history, workload, True, True):
        said = telling.sentence(anomaly, by_index)
        assert said.endswith(".")
        assert all(f"T{index}" in said for index in anomaly.indices)
        assert all(len(sentence.split()) <= 30 for sentence in re.split(r"[.:] ", said))
        drawn = picture.svg(anomaly, by_index, telling.title(anomaly.kind))
        words = [each.text for each in ElementTree.fromstring(drawn).iter() if each.text]
        assert all(f"T{index}" in words for index in anomaly.indices)


def test_a_long_cycle_is_told_and_drawn_in_part() -> None:
    count = 30
    texts = [f"k{at}[] k{(at + 1) % count}+1" for at in range(count)]
    history = planted.Planted((), tuple(texts)).transactions()
    reads = planted.Planted((), tuple(f"k{at}[1]" for at in range(count))).transactions(100)
    (found,) = find([*history, *reads])
    by_index = {each.index: each for each in history}
    assert (found.kind, len(found.indices)) == ("G2-item", count)
    assert "23 more such steps lead from" in telling.sentence(found, by_index)
    assert "19 more transactions" in picture.svg(found, by_index, "long")


def test_texts_of_a_history_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "<b>.jsonl"
    text = (
        reading.dump(planted.LISTS["write skew"].transactions())
        .replace('"x"', '"<script>"')
        .replace('"y"', '"\\ud800"')
    )
    path.write_text(text)
    html = report.judge(path, "txn-list-append").page()
    html.encode()
    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)  # type: ignore[method-assign]
    parser.feed(html)
    assert "b" not in tags
    assert "script" not in tags


def test_a_file_of_edn_is_judged(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(
        "{:process 0, :type :invoke, :f :txn, :value [[:append :x 1]], :index 0}\n"
        "{:process 0, :type :ok, :f :txn, :value [[:append :x 1]], :index 1}\n"
        "{:process 1, :type :invoke, :f :txn, :value [[:r :x nil]], :index 2}\n"
        "{:process 1, :type :ok, :f :txn, :value [[:r :x nil]], :index 3}\n"
    )
    assert report.judge(path, "txn-list-append").judged.valid
    strict = report.judge(path, "txn-list-append", "strict-serializable")
    assert [(one.kind, one.indices) for one in strict.judged.anomalies] == [("G-single-realtime", (3, 1))]


def test_a_cycle_with_two_names_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "fork.jsonl"
    path.write_text(reading.dump(planted.LISTS["long fork"].transactions()))
    judged = report.judge(path, "txn-list-append")
    assert [one["kind"] for one in judged.to_json()["anomalies"]] == ["G-nonadjacent", "G2-item"]
    assert [one.kind for one in judged.told] == ["G-nonadjacent"]
    assert judged.page().count("<svg") == 1


def test_every_level_names_what_still_holds(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    holds = []
    for level in stores.LEVELS[1:]:
        path.write_text(reading.dump(stores.simulate(level, 1)))
        holds.append(len(report.judge(path, "txn-list-append").holds))
    assert holds[0] == 1
    assert holds[-1] == 9
    assert holds == sorted(holds)
