"""What the labs on real servers share: one sentence where an engine is missing, and links that can be cut."""

from __future__ import annotations

import importlib.util
import queue
import socket
import threading
from pathlib import Path
from types import ModuleType

import labs
import pytest


@pytest.mark.parametrize(
    ("lab", "sentence"),
    [
        ("etcd_minority", "etcd is not installed: on Debian and Ubuntu, apt-get install etcd-server\n"),
        ("redis_failover", "Redis is not installed: on Debian and Ubuntu, apt-get install redis-server\n"),
    ],
)
def test_without_its_engine_a_lab_ends_with_one_sentence(lab: str, sentence: str, tmp_path: Path) -> None:
    done = labs.without_programs(labs.FOLDER / f"{lab}.py", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


@pytest.mark.parametrize("lab", ["postgres_two_phase", "etcd_minority", "redis_failover"])
def test_an_unknown_option_is_refused(lab: str, tmp_path: Path) -> None:
    done = labs.without_programs(labs.FOLDER / f"{lab}.py", tmp_path, "--jason")
    assert (done.returncode, done.stderr) == (2, "there is one option, --json, and no --jason\n")


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, labs.FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_cut_link_carries_nothing_until_it_is_healed() -> None:
    arrived: queue.Queue[bytes] = queue.Queue()

    def serve(listener: socket.socket) -> None:
        def receive(connection: socket.socket) -> None:
            with connection:
                while data := connection.recv(100):
                    arrived.put(data)

        threads = []
        for _ in range(2):
            threads.append(threading.Thread(target=receive, args=(listener.accept()[0],)))
            threads[-1].start()
        for thread in threads:
            thread.join()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        with load("partition").Links() as links:
            port = links.proxy("server", listener.getsockname()[1], lambda first: first[:1].decode())
            address = ("127.0.0.1", port)
            with socket.create_connection(address) as a, socket.create_connection(address) as b:
                for sender, name in ((a, b"a"), (b, b"b")):
                    sender.sendall(name)
                    assert arrived.get(timeout=30) == name
                links.cut(("a", "server"))
                a.sendall(b"a, cut")
                b.sendall(b"b")
                assert arrived.get(timeout=30) == b"b"
                assert arrived.empty()
                links.heal()
                assert arrived.get(timeout=30) == b"a, cut"
        server.join(30)
        assert not server.is_alive()
