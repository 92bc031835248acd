"""The lab on a real Kafka: without a broker it says in one sentence where to get one."""

from __future__ import annotations

import os
import subprocess
import sys

import labs
import pytest

LAB = labs.FOLDER / "kafka_acks.py"


@pytest.mark.parametrize(("arguments", "said"), [([], "kafka.apache.org/downloads"), (["--brokers"], "no --brokers")])
def test_without_a_broker_there_is_one_sentence(arguments: list[str], said: str) -> None:
    nowhere = {name: value for name, value in os.environ.items() if name != "KAFKA_BROKERS"}
    done = subprocess.run([sys.executable, str(LAB), *arguments], capture_output=True, text=True, env=nowhere)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
