# What attacks say of themselves, and when they must hold back.
import ctypes
import os
import sys

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl(15, b"@NAME@", 0, 0, 0)  # PR_SET_NAME: also what is forked is found by this name


def won(what):
    """Tell the test that this went through."""
    text = "WO" + "N: " + what
    print(text, file=sys.stderr, flush=True)
    raise SystemError(text)


def boxed():
    """Whether this process is in another process namespace than the tests: only then may it signal everybody."""
    return os.readlink("/proc/self/ns/pid") != "@NAMESPACE@"


def simulated():
    """Whether all ranks are threads of this process."""
    import torch.distributed as dist

    return type(dist.group.WORLD).__name__ != "ProcessGroup"
