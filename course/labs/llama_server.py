"""The same requests to the server of llama-cpp-python and to a small one of ours, with the same tiny model in both.

    make llama-lab            builds llama.cpp in an environment of its own (some 20 minutes) and runs this
    python llama_server.py [--json]

No model is fetched: `llama_tiny.py` writes a Llama of two layers with random weights. llama.cpp reads it as GGUF, and
our server (`llama_ours.py`, 200 lines of PyTorch) as arrays. Both take the likeliest token, so texts can be compared.
Then: stop, max_tokens and streams, two requests at a time, and what is kept of a prompt for the next one. It takes a
minute.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from servers import MissingError, Seen, Server, Servers, free_ports, main, until

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parents[1] / "build" / "labs" / "llama" / "bin" / "python"
MISSING = "llama.cpp is not built: make llama-lab builds it in an environment of its own"
PATIENCE = 120.0
TEXT = "to be or not to be that is the question whether tis nobler in the mind to suffer"
LONG = 400  # tokens of an answer that is still written when the next request comes


class Completions:
    """One server's /v1/completions."""

    def __init__(self, name: str, port: int, server: Server) -> None:
        self.name, self.port, self.server = name, port, server

    def _post(self, body: dict[str, Any]) -> http.client.HTTPResponse:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        line.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        return line.getresponse()

    def ask(self, prompt: str, most: int = 24, **more: Any) -> dict[str, Any]:
        return dict(json.load(self._post({"prompt": prompt, "max_tokens": most, "temperature": 0, **more})))

    def text(self, prompt: str, most: int = 24, **more: Any) -> tuple[str, str]:
        """The text, and why it ended."""
        choice = self.ask(prompt, most, **more)["choices"][0]
        return choice["text"], choice["finish_reason"]

    def stream(self, prompt: str, most: int, **more: Any) -> Iterator[dict[str, Any]]:
        """The events of a stream."""
        for line in self._post({"prompt": prompt, "max_tokens": most, "temperature": 0, "stream": True, **more}):
            if line.startswith(b"data: {"):
                yield json.loads(line[6:])["choices"][0]

    def ready(self) -> bool:
        try:
            line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            line.request("GET", "/v1/models")
            return line.getresponse().status == 200
        except OSError:
            return False

    def kept(self, prompt: str) -> int:
        """How many tokens of this prompt it did not compute."""
        before = self.server.log.read_text(errors="replace")
        told = self.ask(prompt, 4)["usage"].get("prompt_tokens_details")
        if told and self.name == "ours":
            return int(told["cached_tokens"])
        found = re.findall(r"(\d+) prefix-match hit", self.server.log.read_text(errors="replace")[len(before) :])
        return int(found[-1]) if found else 0


def llama(servers: Servers, name: str, *options: str) -> Completions:
    """The server of llama-cpp-python."""
    (port,) = free_ports(1)
    where = ["--host", "127.0.0.1", "--port", str(port)]
    model = ["--model", "tiny.gguf", "--n_ctx", "512", "--n_threads", "1"]
    command = [str(PYTHON), "-m", "llama_cpp.server", *where, *model, *options]
    return Completions("llama.cpp", port, servers.start(name, command))


def ours(servers: Servers) -> Completions:
    """Our server, with four places."""
    port_file = servers.folder / "port"
    command = [sys.executable, str(HERE / "llama_ours.py"), "tiny.npz", str(port_file)]
    server = servers.start("ours", command)
    until("our server listens", PATIENCE, port_file.exists)
    return Completions("ours", int(port_file.read_text()), server)


def lab(servers: Servers, seen: Seen) -> None:
    """All comparisons. Raises MissingError."""
    if not PYTHON.exists():
        raise MissingError(MISSING)
    made = subprocess.run([PYTHON, HERE / "llama_tiny.py", servers.folder], capture_output=True, text=True)
    if made.returncode:
        raise MissingError(MISSING)
    usual = llama(servers, "llama")
    patient = llama(servers, "llama-patient", "--interrupt_requests", "false")
    small = ours(servers)
    for each in (usual, patient, small):
        until(f"{each.name} is ready", PATIENCE, each.ready)
    texts(usual, small, seen)
    for name, each in (("llama.cpp", usual), ("llama.cpp, --interrupt_requests false", patient), ("ours", small)):
        at_a_time(name, each, seen)
    for each in (usual, small):
        prefixes(each, seen)


def texts(theirs: Completions, mine: Completions, seen: Seen) -> None:
    """The same text, and the same ends."""
    draw = random.Random(1)
    prompts = [" ".join(draw.choices(TEXT.split(), k=5)) for _ in range(12)]
    for how, more in (
        ("temperature 0, else its defaults", {}),
        ("temperature 0, repeat_penalty 1", {"repeat_penalty": 1}),
    ):
        same = sum(theirs.text(prompt, **more) == mine.text(prompt) for prompt in prompts)
        seen.row(f"12 prompts, llama.cpp with {how}", f"{same} of 12 texts are the same in both")
        seen.figures[f"same, {'its defaults' if not more else 'no penalty'}"] = same
    text, _ = mine.text("to")
    stop = text[8:10]
    for each in (theirs, mine):
        cut, why = each.text("to", stop=[stop], repeat_penalty=1)
        full, length = each.text("to", repeat_penalty=1)
        seen.row(
            f"{each.name}: max_tokens 24, then the same with stop {stop!r}", f"{full!r} ({length}), {cut!r} ({why})"
        )
        pieces = list(each.stream("to", 24, stop=[stop], repeat_penalty=1))
        joined = "".join(piece["text"] for piece in pieces)
        seen.row(
            f"{each.name}: the same as a stream", f"{len(pieces)} events, {joined!r} ({pieces[-1]['finish_reason']})"
        )
        seen.figures.update({f"{each.name}: stop": why, f"{each.name}: length": length})
        seen.figures[f"{each.name}: stream is the same"] = int(joined == cut)


def at_a_time(name: str, server: Completions, seen: Seen) -> None:
    """A second request comes while the first one's long answer is being written."""
    came: list[int] = []  # whose piece each one was, in the order in which clients got them
    ends: dict[int, str] = {}
    began = threading.Event()

    def client(number: int, prompt: str, most: int) -> None:
        why = "none: the stream just ends"
        for piece in server.stream(prompt, most):
            came.append(number)
            began.set()
            why = piece["finish_reason"] or why
        ends[number] = why

    first = threading.Thread(target=client, args=(1, "to be", LONG))
    first.start()
    began.wait(PATIENCE)
    second = threading.Thread(target=client, args=(2, "or not", 16))
    second.start()
    first.join(PATIENCE)
    second.join(PATIENCE)
    between = came.index(2) < len(came) - 1 - came[::-1].index(
        1
    )  # the second has a token before the first has its last
    got = came.count(1)
    how = "both are written at the same time" if between else "no token of the second comes before the first has ended"
    seen.row(
        f"{name}: a second request during an answer of {LONG}",
        f"{how}; the first got {got} events, finish_reason {ends[1]}",
    )
    seen.figures.update({f"{name}: between": int(between), f"{name}: events": got, f"{name}: end": ends[1]})


def prefixes(server: Completions, seen: Seen) -> None:
    """A prompt, a longer one that begins with it, another one, and the first once more."""
    talk, other = TEXT, "slings and arrows"
    server.ask(talk, 4)
    longer = server.kept(f"{talk} the slings")
    server.ask(other, 4)
    again = server.kept(f"{talk} and arrows")
    seen.row(f"{server.name}: a prompt, then one that begins with it", f"{longer} of {len(talk) + 1} tokens are kept")
    seen.row(f"{server.name}: another prompt, then one more that begins with the first", f"{again} of {len(talk) + 1}")
    seen.figures.update({f"{server.name}: longer": longer, f"{server.name}: again": again})


if __name__ == "__main__":
    sys.exit(main(lab, sys.argv[1:]))
