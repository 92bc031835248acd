"""Which rule of this machine forbids user namespaces, and the command that lifts it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_CONTAINERS = ("docker-", "containerd", "crio", "lxc-", "cri-")  # what the names of their AppArmor profiles begin with
_START = ("docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
          "--security-opt systempaths=unconfined ...")  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """What forbids user namespaces, and what lifts that."""

    name: str
    command: str


def forbidding(proc: Path = Path("/proc"), *, root: bool | None = None) -> Rule | None:
    """The rule that keeps this user (`root` or not) from user namespaces, as the kernel tells it below `proc`; None: no
    rule that we know. The kernel may refuse all the same."""
    root = os.geteuid() == 0 if root is None else root
    for name, forbidden, allowed, also_root in (
        ("user.max_user_namespaces", "0", "15000", True),
        ("kernel.unprivileged_userns_clone", "0", "1", False),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0", False),
    ):
        if _read(proc / "sys" / name.replace(".", "/")) == forbidden and (also_root or not root):
            return Rule(f"{name}={forbidden}", f"sudo sysctl -w {name}={allowed}")
    profile = _read(proc / "self" / "attr" / "current")
    if profile.startswith(_CONTAINERS):
        return Rule(f"this container's AppArmor profile {profile}", _START)
    if "Seccomp:\t2" in _read(proc / "self" / "status").splitlines():
        return Rule("this container's filter of system calls", _START)
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip("\0\n")
    except OSError:
        return ""
