"""In place of Ray's agent for runtime environments, without which no actor of Tune or Train starts.

Environment variables are all that a worker here can be given.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PREFIX = "--serialized-runtime-env-context="  # of what a worker's command line says of its environment


def serve() -> int:
    """Answer the raylet from now on, in a thread of this process. Returns the port, on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Agent)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def variables(arguments: list[str]) -> dict[str, str]:
    """What the command line of a worker says."""
    found = [each.removeprefix(PREFIX) for each in arguments if each.startswith(PREFIX)]
    told = json.loads(found[-1]).get("env_vars") if found and found[-1] else None
    return {str(name): str(value) for name, value in (told or {}).items()}


class _Agent(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        from ray.core.generated import runtime_env_agent_pb2 as messages

        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/get_or_create_runtime_env":
            asked = messages.GetOrCreateRuntimeEnvRequest.FromString(body)
            wanted = json.loads(asked.serialized_runtime_env or "{}")
            reply: Any = messages.GetOrCreateRuntimeEnvReply(status=messages.AGENT_RPC_STATUS_OK)
            reply.serialized_runtime_env_context = json.dumps({"env_vars": wanted.get("env_vars") or {}})
            if beyond := sorted(set(wanted) & {"pip", "conda", "uv", "container", "image_uri", "working_dir"}):
                reply.status = messages.AGENT_RPC_STATUS_FAILED
                reply.error_message = f"{beyond[0]} is not supported here: workers have the driver's packages"
        else:
            reply = messages.DeleteRuntimeEnvIfPossibleReply(status=messages.AGENT_RPC_STATUS_OK)
        data = reply.SerializeToString()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing: nobody reads it."""
