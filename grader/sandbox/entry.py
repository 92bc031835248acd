"""Where a process of a box begins: the first message says which program of ours it is to run."""

from __future__ import annotations

import faulthandler
import importlib
import os
import signal
import socket

import grader
from grader.sandbox import frames
from grader.sandbox.first import NOTE, STACKS_SIGNAL, TRACE_SIGNAL

PROGRAMS = {
    "ranks": "grader.ranks.worker",
    "nodes": "grader.nodes.host",
    "job": "grader.jobs.host",
    "spark": "grader.jobs.sparks.host",
    "stream": "grader.jobs.sparks.streams",
    "ray": "grader.jobs.rays.host",
}


def main(number: int, end: socket.socket, port: int) -> int:
    """Be process `number` of a box: serve(start, channel) of the module that the first message, `start`, names as its
    "program". The port is that of the listening socket by which ranks meet. Returns an exit status."""
    grader.in_box = True
    channel = frames.Channel(end)
    os.lseek(NOTE, 8, os.SEEK_SET)  # after the number that a program may keep there
    signal.signal(TRACE_SIGNAL, signal.SIG_IGN)
    faulthandler.register(STACKS_SIGNAL, file=NOTE, all_threads=True)
    first = channel.next()
    if first is None:
        return 0
    program = importlib.import_module(PROGRAMS[first.header["program"]])
    return int(program.serve({**first.header, "rank": number, "port": port}, channel))
