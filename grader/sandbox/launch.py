"""The last step before a command runs in its box: give up what it is not to have, and become it.

    python -m grader.sandbox.launch '{"mode", "limits", "folder"}' -- COMMAND ...

In a full box (bubblewrap) this process becomes the command. Elsewhere it stays as the command's keeper: it ends every
process that the command leaves behind, also those that detached themselves, and ends with the command, on SIGTERM, or
when the process that started it ends. Exit status 77: the box cannot be made here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from types import FrameType

from grader.sandbox import seccomp, supervise
from grader.sandbox.limits import BoxLimits

REFUSED = 77


def main(argv: list[str]) -> None:
    """Never returns."""
    wanted = json.loads(argv[1])
    command = argv[argv.index("--") + 1 :]
    os.environ.pop("JPY_PARENT_PID", None)  # of a process that the box does not see: a kernel would end itself
    full = wanted["mode"] == "full"
    if not full:
        _keep()
    try:
        os.chdir(wanted["folder"])
        BoxLimits.from_json(wanted["limits"]).impose(alone=full)
        if full:
            seccomp.install(seccomp.program(unix_sockets=True))
    except OSError as error:
        print(f"the sandbox could not be made: {error}", file=sys.stderr)
        os._exit(REFUSED)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]} could not be started: {error}", file=sys.stderr)
        os._exit(127)


def _keep() -> None:
    """Fork; the child returns, and becomes the command. The parent never returns."""
    supervise.become_subreaper()
    started_by = os.getppid()
    child = os.fork()
    if child == 0:
        os.setsid()
        return
    status = 1
    try:
        signal.signal(signal.SIGTERM, _end)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        supervise.prctl(supervise.PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() == started_by:
            while True:
                pid, ended = os.waitpid(-1, 0)
                if pid == child:
                    status = os.waitstatus_to_exitcode(ended)
                    break
    except SystemExit:
        status = 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        supervise.end_descendants()
        os._exit(status if status >= 0 else 128 - status)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit


if __name__ == "__main__":
    main(sys.argv)
