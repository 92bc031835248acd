"""What a forked child answers: tests of what cannot be undone in the process that does it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import traceback
import warnings
from collections.abc import Callable
from typing import TypeVar

import pytest

Answer = TypeVar("Answer")

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
NOBODY = 65534
PR_SET_DUMPABLE = 4


def in_child(do: Callable[[], Answer], uid: int | None = None) -> Answer:
    """The answer of `do`, called in a child of its own, as `uid` if given. AssertionError: it raised, or was killed."""
    reading, writing = os.pipe()
    child = fork()
    if child == 0:
        _answer(writing, do, uid)
    os.close(writing)
    with open(reading, "rb") as pipe:
        told = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert told, f"the child told nothing and ended with {status}"
    answer, error = pickle.loads(told)
    assert not error, error
    return answer  # type: ignore[no-any-return]


def fork() -> int:
    """As os.fork()."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 fears for the threads of whoever runs tests
        return os.fork()


def _answer(pipe: int, do: Callable[[], Answer], uid: int | None) -> None:
    try:
        if uid is not None:
            become(uid)
        told = pickle.dumps((do(), ""))
    except BaseException:
        told = pickle.dumps((None, traceback.format_exc()))
    os.write(pipe, told)
    os._exit(0)


def become(uid: int) -> None:
    """Be this user, as if started by it: a change of user alone leaves /proc/self to root."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def status(do: Callable[[], object]) -> int:
    """How a child ends that does this and then leaves: its exit status, or minus the signal that ended it."""
    child = fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            do()
            os._exit(0)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def error_of(do: Callable[[], object]) -> int:
    """The errno with which this fails; 0: it does not."""
    try:
        do()
    except OSError as error:
        return error.errno or -1
    return 0


def own_network() -> None:
    """Enter a network namespace of one's own, as any user that may."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "no user namespaces")


def users() -> list[int | None]:
    """Whoever tests can run as here: the one running them, and, as root, a spare one."""
    return [None, NOBODY] if os.geteuid() == 0 else [None]


needs_user_namespaces = pytest.mark.skipif(
    bool(status(own_network)), reason="a network of one's own needs user namespaces, which this system does not give"
)
