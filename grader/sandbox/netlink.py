"""What the kernel knows of a network namespace: its loopback, its TCP sockets, and the bytes that went over each.

All is of the network namespace that the calling process is in, or was in when the socket passed along was opened: one
opened inside a box tells of that box from anywhere, for as long as it is open.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_INTERFACE = struct.Struct("=16sH22x")  # struct ifreq

_AF_NETLINK, _SOCK_DIAG = 16, 4
_BY_FAMILY, _REQUEST_DUMP = 20, 0x301
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, port
_QUESTION = struct.Struct("=BBBxI48x")  # struct inet_diag_req_v2: family, protocol, extensions, states, socket
_PORTS, _INODE, _ANSWER = struct.Struct(">HH"), struct.Struct("=I"), 72  # in struct inet_diag_msg
_PORTS_AT, _INODE_AT = 4, 68
_ATTRIBUTE = struct.Struct("=HH")
_INFO = 2  # INET_DIAG_INFO
_BYTES, _BYTES_AT = struct.Struct("=QQ"), 120  # in struct tcp_info: acknowledged by the peer, and received
_SENT, _SENT_AT = struct.Struct("=QQ"), 200  # sent, those sent again among them, and sent again; since Linux 4.19
_ALL_STATES = 0xFFFFFFFF


@dataclass(frozen=True)
class TcpSocket:
    """One end of a TCP connection, or a listener. Bytes are payload, whole since the connection began; in
    `bytes_received` the kernel counts the end of a direction as a byte more. `bytes_sent` does not wait for the peer's
    acknowledgement, which on a quiet connection takes up to 40 ms, but on kernels before 4.19."""

    inode: int
    local_port: int
    remote_port: int
    bytes_sent: int
    bytes_received: int


def loopback_up() -> None:
    """Switch on `lo` in the current network namespace. OSError: not allowed (CAP_NET_ADMIN over it is needed)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        answer = fcntl.ioctl(control, _SIOCGIFFLAGS, _INTERFACE.pack(b"lo", 0))
        flags = _INTERFACE.unpack(answer)[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, _INTERFACE.pack(b"lo", flags | _IFF_UP))


def loopback_bytes(net_dev_text: str) -> int:
    """Bytes sent over `lo`, headers of packets included, from the text of /proc/net/dev. ValueError: no `lo` in it."""
    for line in net_dev_text.splitlines():
        name, colon, counters = line.partition(":")
        if colon and name.strip() == "lo":
            return int(counters.split()[8])
    raise ValueError("no loopback interface in this text")


def open_diagnosis() -> socket.socket:
    """A socket to ask the kernel about the TCP sockets of the network namespace this process is in now."""
    return socket.socket(_AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _SOCK_DIAG)


def sockets(through: socket.socket | None = None) -> list[TcpSocket]:
    """All TCP sockets, IPv4 and IPv6, with their counters, that are neither closed nor in TIME_WAIT.

    `through`: from `open_diagnosis`, to ask about the namespace in which that was called. OSError: the kernel refused.
    """
    if through is None:
        with open_diagnosis() as own:
            return sockets(own)
    return [*_dump(through, socket.AF_INET), *_dump(through, socket.AF_INET6)]


def _dump(through: socket.socket, family: int) -> Iterator[TcpSocket]:
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), _ALL_STATES)
    through.send(_HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, _REQUEST_DUMP, 0, 0) + question)
    while True:
        data, (sender, _) = through.recvfrom(2**18)
        at = 0 if sender == 0 else len(data)  # the kernel is 0; other processes can write to such a socket too
        while at + _HEADER.size <= len(data):
            length, kind, _, _, _ = _HEADER.unpack_from(data, at)
            body = data[at + _HEADER.size : at + length]
            if kind == _DONE:
                return
            if kind == _ERROR:
                number = -struct.unpack_from("=i", body)[0]
                raise OSError(number, f"the kernel told nothing about its TCP sockets: {os.strerror(number)}")
            found = _socket(body)
            if found is not None:
                yield found
            at += (length + 3) & ~3


def _socket(body: bytes) -> TcpSocket | None:
    local, remote = _PORTS.unpack_from(body, _PORTS_AT)
    at = _ANSWER
    while at + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        if kind == _INFO and length >= _ATTRIBUTE.size + _BYTES_AT + _BYTES.size:
            sent, received = _BYTES.unpack_from(body, at + _ATTRIBUTE.size + _BYTES_AT)
            again = 0
            if length >= _ATTRIBUTE.size + _SENT_AT + _SENT.size:
                sent, again = _SENT.unpack_from(body, at + _ATTRIBUTE.size + _SENT_AT)
            return TcpSocket(_INODE.unpack_from(body, _INODE_AT)[0], local, remote, sent - again, received)
        at += max(4, (length + 3) & ~3)
    return None
