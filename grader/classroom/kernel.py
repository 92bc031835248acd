"""A notebook's kernel in a box: it reaches the grading service, and nothing else of this machine.

Jupyter talks to it over unix sockets, which the kernel opens in its box's own scratch folder: its network is its own,
and of the files of this machine it can write none.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager
from traitlets import default

from grader.classroom.check import SERVICE
from grader.sandbox import modes
from grader.sandbox.command import Wrapped, wrap
from grader.sandbox.limits import BoxLimits
from grader.sandbox.supervise import kill_tree
from grader.sandbox.watch import Watch

# what `from grader import check, play` needs of this package, besides the box's own: nothing that knows an answer
PARTS = tuple(f"classroom/{name}.py" for name in ("__init__", "check", "lines", "numbers", "report"))
LIMITS = BoxLimits(cpu_seconds=600)
MESSAGE_BYTES = 16 * 2**20  # the longest message that is taken from a kernel
MESSAGES = 100  # that wait to be read
WORK, SOCKET = "work", "service.sock"

KILL_SECONDS = 5.0

EXCEEDED = {
    "memory": "the notebook used more than {0.memory_bytes:,} bytes of memory",
    "processes": "the notebook started more than {0.processes} processes and threads",
    "inodes": "the notebook made more than {0.inodes} files",
}


class _Client(AsyncKernelClient):
    """Takes no message that is too long, and not too many at once."""

    @default("context")
    def _context_of_short_messages(self) -> zmq.asyncio.Context:
        self._created_context = True  # it ends with the client
        context = zmq.asyncio.Context()
        context.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES)  # for every socket that is made from it
        context.setsockopt(zmq.RCVHWM, MESSAGES)
        return context


class BoxedKernelManager(AsyncKernelManager):
    """Starts a Python kernel in a box, in the given mode. Shutting it down ends every process that it left behind.

    `service` is the socket of a `Door`, `files` are what the kernel sees in its working folder, read-only.
    """

    def __init__(
        self,
        *,
        mode: modes.Mode | None = None,
        service: str | None = None,
        files: Mapping[str, Path] | None = None,
        limits: BoxLimits = LIMITS,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{**kwargs, "kernel_name": "python3", "client_factory": _Client})
        self.mode, self.service, self.files, self.limits = mode or modes.mode(), service, dict(files or {}), limits
        self.folder = tempfile.mkdtemp(prefix="rankup-kernel-")
        self.scratch = os.path.join(self.folder, "box")
        self.transport, self.ip = "ipc", os.path.join(self.scratch, "kernel")
        self.connection_file = os.path.join(self.folder, "kernel.json")
        self._wrapped: Wrapped | None = None
        self._watch: Watch | None = None
        self._errors = -1

    @property
    def exceeded(self) -> str:
        """Which limit the kernel was ended for, as the end of a sentence; "" if it was not."""
        return EXCEEDED[self._watch.exceeded].format(self.limits) if self._watch and self._watch.exceeded else ""

    def said(self) -> str:
        """The last line that the box, or the kernel before it was up, said on stderr."""
        text = b""
        with contextlib.suppress(OSError):
            text = os.read(self._errors, 2**16)
        return (text.decode(errors="replace").strip().splitlines() or [""])[-1]

    def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
        os.mkdir(self.scratch, 0o700)
        seen = {"kernel.json": Path(self.connection_file)}
        seen |= {os.path.join(WORK, name): path for name, path in self.files.items()}
        env = {}
        if self.service is not None:
            seen[SOCKET] = Path(self.service)
            env[SERVICE] = os.path.join(self.scratch, SOCKET)
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", os.path.join(self.scratch, "kernel.json")]
        argv += extra_arguments or []
        self._wrapped = wrap(
            argv, scratch=self.scratch, folder=WORK, mode=self.mode, limits=self.limits, more=PARTS, files=seen, env=env
        )
        return self._wrapped.argv

    async def _async_launch_kernel(self, kernel_cmd: list[str], **kw: Any) -> None:
        assert self._wrapped is not None
        self._errors, errors = os.pipe()
        os.set_blocking(self._errors, False)
        os.set_blocking(errors, False)  # what is too much is lost, and nobody waits
        kw |= {"env": self._wrapped.env, "pass_fds": self._wrapped.pass_fds, "cwd": self.folder}
        kw |= {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": errors}  # not our terminal
        try:
            await super()._async_launch_kernel(kernel_cmd, **kw)
        finally:
            os.close(errors)
        root = self._wrapped.started()
        self.ip = root + self.ip  # from here on ours: the kernel has its own in the connection file
        scratch = (self.scratch, "/tmp", "/dev/shm") if root else ()
        self._watch = Watch(self._process.pid, self.limits, scratch)

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = self.provisioner.process  # type: ignore[union-attr]
        return process

    async def _async_interrupt_kernel(self) -> None:
        """A boxed kernel is ended, never interrupted."""

    async def _async_kill_kernel(self, restart: bool = False) -> None:
        if self.has_kernel and self._process.poll() is None:
            if self.mode == "full":
                kill_tree(self._process.pid)
            else:
                self._process.terminate()  # its keeper ends all the others
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(KILL_SECONDS)
        await super()._async_kill_kernel(restart=restart)

    async def _async_shutdown_kernel(self, now: bool = False, restart: bool = False) -> None:
        await super()._async_shutdown_kernel(now=True, restart=restart)

    async def _async_cleanup_resources(self, restart: bool = False) -> None:
        if self._watch:
            self._watch.stop()
        await super()._async_cleanup_resources(restart=restart)
        if self._wrapped:
            self._wrapped.close()
        if self._errors >= 0:
            os.close(self._errors)
            self._errors = -1
        shutil.rmtree(self.folder, ignore_errors=True)

    # the base class binds these to its own, whatever is overridden
    interrupt_kernel = _async_interrupt_kernel
    shutdown_kernel = _async_shutdown_kernel
    cleanup_resources = _async_cleanup_resources
    _kill_kernel = _async_kill_kernel
