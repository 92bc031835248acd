"""Privileges given up stay given up, also for uid 0, also after exec."""

from __future__ import annotations

import ctypes
import os
import subprocess

import pytest
from forked import error_of, in_child, users

from grader.sandbox import capabilities

LIBC = ctypes.CDLL(None)
PR_GET_SECUREBITS, PR_CAP_AMBIENT, AMBIENT_RAISE, CAP_DAC_OVERRIDE = 27, 47, 2, 1
SETS = ("CapInh", "CapPrm", "CapEff", "CapAmb")


def _told() -> dict[str, str]:
    with open("/proc/self/status") as status:
        return dict(line.rstrip("\n").split(":\t") for line in status if line.startswith(("Cap", "NoNewPrivs")))


def _after_exec() -> dict[str, str]:
    text = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    return dict(line.split(":\t") for line in text.splitlines() if line.startswith(("Cap", "NoNewPrivs")))


def test_held_is_the_kernels_effective_set() -> None:
    assert capabilities.held() == int(_told()["CapEff"], 16)


@pytest.mark.parametrize("uid", users())
def test_nothing_is_left_and_exec_brings_nothing_back(uid: int | None) -> None:
    def give_up() -> tuple[int, dict[str, str], dict[str, str]]:
        capabilities.drop_all()
        return capabilities.held(), _told(), _after_exec()

    left, here, executed = in_child(give_up, uid)
    assert left == 0
    for told in (here, executed):
        assert {int(told[name], 16) for name in SETS} == {0}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a bounding set to empty")
@pytest.mark.parametrize("own_bounding_set", [True, False])
def test_uid_0_gains_nothing_by_exec(own_bounding_set: bool) -> None:
    """With CAP_SETPCAP the bounding set goes too; without it, no_new_privs stands in."""

    def give_up() -> dict[str, str]:
        if not own_bounding_set:
            _keep_only(CAP_DAC_OVERRIDE)
        capabilities.drop_all()
        return _after_exec()

    executed = in_child(give_up)
    assert {int(executed[name], 16) for name in SETS} == {0}
    assert (int(executed["CapBnd"], 16) == 0) is own_bounding_set
    assert (executed["NoNewPrivs"] == "1") is not own_bounding_set


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has no privileges to lose")
def test_what_root_may_is_refused_after_it() -> None:
    def give_up() -> tuple[int, int]:
        before = error_of(lambda: os.setgroups([]))
        capabilities.drop_all()
        return before, error_of(lambda: os.setuid(1))

    assert in_child(give_up) == (0, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has no secure bits to set")
def test_that_uid_0_is_nobody_special_is_locked() -> None:
    def give_up() -> int:
        capabilities.drop_all()
        return LIBC.prctl(PR_GET_SECUREBITS, 0, 0, 0, 0)

    assert in_child(give_up) == 0b11_10_11_11  # see capabilities(7); from the right each with its lock


def test_a_second_time_does_no_harm() -> None:
    def twice() -> int:
        capabilities.drop_all()
        capabilities.drop_all()
        return capabilities.held()

    assert in_child(twice) == 0


def _keep_only(capability: int) -> None:
    """In every set, but that of bounds."""
    sets = (capabilities._Sets * 2)()
    sets[0].effective = sets[0].permitted = sets[0].inheritable = 1 << capability
    header = capabilities._Header(capabilities._VERSION_3, 0)
    assert LIBC.capset(ctypes.byref(header), sets) == 0
    assert LIBC.prctl(PR_CAP_AMBIENT, AMBIENT_RAISE, capability, 0, 0) == 0
