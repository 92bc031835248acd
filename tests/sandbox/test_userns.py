"""Where user namespaces are forbidden: the rule and what lifts it are named, and strangers' code is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked import in_child, needs_user_namespaces
from rich.console import Console

from grader import doctor
from grader.classroom import autograde
from grader.classroom.batch import run
from grader.sandbox import bwrap, modes, namespaces, seccomp, userns
from grader.submission import BadRequest

RULES = [
    ({"sys/user/max_user_namespaces": "0"}, True, "sudo sysctl -w user.max_user_namespaces=15000"),
    ({"sys/user/max_user_namespaces": "0"}, False, "sudo sysctl -w user.max_user_namespaces=15000"),
    ({"sys/user/max_user_namespaces": "96365"}, False, None),
    (
        {"sys/kernel/unprivileged_userns_clone": "0"}, False, "sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    ({"sys/kernel/unprivileged_userns_clone": "0"}, True, None),
    ({"sys/kernel/unprivileged_userns_clone": "1"}, False, None),
    (
        {"sys/kernel/apparmor_restrict_unprivileged_userns": "1"}, False,
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    ({"sys/kernel/apparmor_restrict_unprivileged_userns": "1"}, True, None),
    ({"sys/kernel/apparmor_restrict_unprivileged_userns": "0"}, False, None),
    ({"self/attr/current": "docker-default (enforce)"}, True, "docker run --security-opt seccomp=unconfined "),
    ({"self/attr/current": "unconfined"}, True, None),
    ({"self/status": "Name:\tpython\nSeccomp:\t2\nSeccomp_filters:\t1"}, True, "docker run --security-opt "),
    ({"self/status": "Name:\tpython\nSeccomp:\t0\nSeccomp_filters:\t0"}, True, None),
    ({}, False, None),
]  # fmt: skip


@pytest.mark.parametrize(("files", "root", "command"), RULES)
def test_the_rule_that_applies_and_what_lifts_it(
    files: dict[str, str], root: bool, command: str | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    found = userns.forbidding(tmp_path, root=root)
    assert (found and found.command[: len(command or "")]) == command


def told() -> tuple[str, str, str]:
    """The mode, how to get a better one, and what the doctor says, in a process that has asked nothing yet."""
    modes.why_not.cache_clear()
    mode = modes.mode()
    finding = doctor._isolation()
    assert finding.advice == modes.advice(mode)
    return mode, finding.state, finding.advice


@needs_user_namespaces
def test_a_limit_of_namespaces_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(modes.MOST, raising=False)

    def limited() -> tuple[str, str, str]:
        namespaces.enter()
        Path("/proc/sys/user/max_user_namespaces").write_text("0")  # of the namespace that we are in
        return told()

    mode, state, advice = in_child(limited)
    assert (mode, state) == ("none", "optional")
    assert "forbidden by user.max_user_namespaces=0; to allow them: sudo sysctl -w user.max_user" in advice


@needs_user_namespaces
def test_a_containers_filter_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(modes.MOST, raising=False)

    def filtered() -> tuple[str, str, str]:
        seccomp.install(seccomp.program(unix_sockets=True))
        return told()

    mode, state, advice = in_child(filtered)
    assert (mode, state) == ("none", "optional")
    assert "this container's filter of system calls; to allow them: docker run" in advice


def test_without_bubblewrap_the_doctor_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(modes.MOST, raising=False)
    monkeypatch.setattr(bwrap, "program", lambda: None)
    assert "apt install bubblewrap" in in_child(told)[2]


def test_strangers_code_is_refused_in_a_sentence_and_ones_own_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "mode", lambda: "none")
    monkeypatch.setattr(modes, "why_not", lambda mode: "No space left on device" if mode == "full" else "")
    monkeypatch.setattr(userns, "forbidding", lambda: userns.Rule("a rule", "lift it"))
    monkeypatch.delenv(modes.MOST, raising=False)
    monkeypatch.delenv(autograde.TRUST, raising=False)
    assert "forbidden by a rule; to allow them: lift it; or set" in autograde.refused("none")
    with pytest.raises(BadRequest, match="submissions cannot be isolated here"):
        run._isolated(False, Console(quiet=True))
