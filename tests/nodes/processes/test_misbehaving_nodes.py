"""Programs that crash, hang, flood or print what is no message: the run ends with a sentence, and nothing is left."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from cluster_runs import play, program

from grader.nodes.processes import child, cluster
from grader.nodes.processes.child import Log


@dataclass(frozen=True)
class Bad:
    """How it ends: the kind of trouble, and words that the sentence must have."""

    kind: str
    words: tuple[str, ...]


PRINTED = {
    "chatters": ("n", "`starting up...`", "not JSON", "Print only messages to stdout"),
    "rubbish": ("`handling {", "not JSON", '{"src": "n1"', "stderr"),
    "endless_rubbish": ("`yes`", "not JSON"),
    "long_line": ("more than 1 MiB", "without a line break", "`xxxx"),
    "binary": ("not UTF-8 text", r"`\x00\xff\xfe\x1b[2J`", "at byte 2"),
    "nan": ("NaN is not JSON",),
    "deep": ("nested too deep",),
    "huge_number": ("`9999", "10,000 characters"),
    "list": ("not an object", "`[1, 2]`"),
    "no_dest": ("without 'dest'",),
    "dest_number": ("'dest' is not a string",),
    "no_body": ("'body' is not an object",),
    "text_id": ("'in_reply_to' is not an integer",),
    "other_src": ("another node's name as 'src'", '"n9"'),
    "other_dest": ("sent a message to 'n9', which does not exist", "n1, n2", "lin-kv"),
    "no_in_reply_to": ("without 'in_reply_to'", "msg_id"),
    "future_reply": ("a request it never made", "77"),
    "other_type": ("answered 'echo' with", "'echo_ok'"),
    "no_echo": ("'echo_ok' without 'echo'",),
    "code_text": ("'code' is not an integer",),
}
ENDINGS = {
    "crash": Bad("crash", ("status 1", "before it answered init", "RuntimeError: no such config file")),
    "exit": Bad("crash", ("status 0", "before it answered init")),
    "crash_later": Bad("crash", ("status 1", "KeyError: 'no such key'")),
    "exit_later": Bad("crash", ("status 3", "must run until it is killed")),
    "segfault": Bad("crash", ("SIGSEGV",)),
    **{how: Bad("protocol", words) for how, words in PRINTED.items()},
}


@pytest.mark.parametrize(("how", "bad"), ENDINGS.items(), ids=ENDINGS)
def test_what_a_node_does_wrong_is_said_in_a_sentence(how: str, bad: Bad) -> None:
    outcome = play("echo", program("misbehave.py", how), seconds=20)
    assert outcome.judgement.valid is False
    assert outcome.trouble is not None
    assert outcome.trouble.kind == bad.kind
    assert outcome.trouble.message.startswith(f"{outcome.trouble.node} ")
    for word in bad.words:
        assert word in outcome.trouble.message
    assert outcome.trouble.message.isprintable()
    assert outcome.seconds < 20, "it ended before its time"


def test_a_node_that_never_answers_init_is_told_of_flushing() -> None:
    outcome = play("echo", program("misbehave.py", "hang"), init_seconds=0.3)
    assert outcome.trouble is not None
    assert outcome.trouble.kind == "no_init"
    assert "Flush stdout" in outcome.trouble.message


def test_a_node_that_never_answers_topology_is_told_so() -> None:
    outcome = play("broadcast", program("misbehave.py", "deaf"), nodes=1, init_seconds=2.0)
    assert outcome.trouble is not None
    assert outcome.trouble.kind == "no_topology"
    assert "'topology_ok'" in outcome.trouble.message


def test_a_node_that_answers_nothing_leaves_it_unknown() -> None:
    outcome = play("echo", program("misbehave.py", "deaf"), seconds=0.2)
    assert outcome.judgement.valid == "unknown"
    assert "not one request was answered" in outcome.judgement.reason


def test_a_node_that_sends_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "MOST_WAITING", 500)
    outcome = play("echo", program("misbehave.py", "storm"), seconds=20)
    assert outcome.trouble is not None
    assert outcome.trouble.kind == "flood"
    assert "'storm'" in outcome.trouble.message


def test_messages_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from grader.nodes.processes.network import Weather

    monkeypatch.setattr(cluster, "MOST_IN_FLIGHT", 500)
    outcome = play("echo", program("misbehave.py", "storm"), seconds=20, weather=Weather(latency=0.02))
    assert outcome.trouble is not None
    assert outcome.trouble.kind == "flood"
    assert "in flight" in outcome.trouble.message


@pytest.mark.parametrize("how", ["ignores_term", "daemon", "counts_fds"])
def test_a_right_answer_is_right_whatever_else_a_node_starts_or_ignores(how: str) -> None:
    outcome = play("echo", program("misbehave.py", how))
    assert outcome.right, outcome.judgement.reason


def test_the_end_of_a_long_stderr_is_kept() -> None:
    outcome = play("echo", program("misbehave.py", "stderr_flood"), nodes=1)
    assert outcome.right, outcome.judgement.reason
    assert len(outcome.logs["n1"]) < 2 * child.LOG_BYTES
    assert outcome.logs["n1"].rstrip().endswith(r"\xff\xfe the end of the flood")
    assert "bytes before this" in outcome.logs["n1"]


def test_a_log_says_how_much_is_left_out() -> None:
    log = Log()
    log.add(b"x" * (child.LOG_BYTES + 7))
    assert log.text().startswith("... (7 bytes before this)\n")


def test_a_wrong_echo_is_wrong_and_no_trouble() -> None:
    outcome = play("echo", program("misbehave.py", "other_echo"))
    assert outcome.trouble is None
    assert outcome.judgement.valid is False
    assert "'something else'" in outcome.judgement.reason


def test_a_command_that_is_no_program_is_no_command(tmp_path: Path) -> None:
    script = tmp_path / "no-shebang"
    script.write_text("print(1)\n")
    script.chmod(0o755)
    outcome = play("echo", (str(script),))
    assert outcome.trouble is not None
    assert outcome.trouble.kind == "no_command"
    assert "#!" in outcome.trouble.message


@pytest.mark.parametrize("whom", ["the node", "its nanny"])
def test_a_process_that_others_kill_is_a_crash(whom: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = cluster.Cluster._initialized

    def kill(self: cluster.Cluster, message: object) -> None:
        answered(self, message)  # type: ignore[arg-type]
        if self.ready:
            node = self.nodes["n1"].child
            assert node is not None
            pid = node.pid
            assert pid is not None
            os.kill(pid if whom == "the node" else psutil.Process(pid).ppid(), signal.SIGKILL)

    monkeypatch.setattr(cluster.Cluster, "_initialized", kill)
    outcome = play("echo", program("misbehave.py", "daemon" if whom == "the node" else "right"), seconds=20)
    assert outcome.trouble is not None
    assert outcome.trouble.kind == "crash"
    assert "SIGKILL" in outcome.trouble.message
