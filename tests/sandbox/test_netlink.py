"""What the kernel counted is what was sent, over IPv4 and IPv6, in a network of one's own."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest
from forked import error_of, in_child, needs_user_namespaces, own_network

from grader.sandbox import netlink

MEGABYTE = 2**20
NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier
  eth0: 9999       9    0    0    0     0          0         0     8888       8    0    0    0     0       0
    lo:{received:8}       3    0    0    0     0          0         0 {sent}       3    0    0    0     0
"""


@pytest.mark.parametrize("received", [123, 123456789012])  # a wide number leaves no space after the colon
def test_loopback_bytes_are_those_sent(received: int) -> None:
    assert netlink.loopback_bytes(NET_DEV.format(received=received, sent=456)) == 456


def test_a_text_without_loopback_is_refused() -> None:
    with pytest.raises(ValueError, match="no loopback"):
        netlink.loopback_bytes("nothing\n  eth0: 1 2 3\n")


def _send(family: int, size: int) -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family) as listener:
        client = socket.create_connection(listener.getsockname()[:2])
        server = listener.accept()[0]
    client.setblocking(False)
    sent = received = 0
    while received < size:
        if sent < size:
            with contextlib.suppress(BlockingIOError):
                sent += client.send(bytes(min(65536, size - sent)))
        received += len(server.recv(65536))
    client.setblocking(True)
    server.send(b"!")  # carries the acknowledgement, which may otherwise come some milliseconds later
    client.recv(1)
    return client, server


@needs_user_namespaces
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
@pytest.mark.parametrize("from_before", [False, True])
def test_a_megabyte_is_counted_at_both_ends(family: int, from_before: bool) -> None:
    def measure() -> tuple[list[netlink.TcpSocket], list[int], list[int], int]:
        own_network()
        netlink.loopback_up()
        asked = netlink.open_diagnosis() if from_before else None
        client, server = _send(family, MEGABYTE)
        ports = [client.getsockname()[1], server.getsockname()[1]]
        inodes = [Path(f"/proc/self/fd/{end.fileno()}").stat().st_ino for end in (client, server)]
        text = Path("/proc/self/net/dev").read_text()
        return netlink.sockets(asked), ports, inodes, netlink.loopback_bytes(text)

    found, ports, inodes, loopback = in_child(measure)
    assert sorted(end.inode for end in found) == sorted(inodes)
    by_inode = {end.inode: end for end in found}
    client, server = by_inode[inodes[0]], by_inode[inodes[1]]
    assert (client.local_port, client.remote_port, client.bytes_received) == (*ports, 1)
    assert (server.local_port, server.remote_port) == (*reversed(ports),)
    assert server.bytes_received == MEGABYTE
    assert client.bytes_sent == MEGABYTE
    assert MEGABYTE < loopback < 1.1 * MEGABYTE


@needs_user_namespaces
def test_loopback_is_down_until_it_is_switched_on() -> None:
    def around() -> tuple[int, int, list[netlink.TcpSocket]]:
        own_network()

        def connect() -> None:
            with socket.socket() as dialler:
                dialler.connect(("127.0.0.1", 9))

        before = error_of(connect)
        netlink.loopback_up()
        return before, error_of(connect), netlink.sockets()

    unreachable, refused, left = in_child(around)
    assert (unreachable, refused) == (101, 111)  # ENETUNREACH: no way there; ECONNREFUSED: there, and nobody listens
    assert left == []
