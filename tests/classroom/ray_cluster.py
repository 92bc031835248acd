"""A Ray cluster of two machines on this one, in a process of its own, for tests.

    python tests/classroom/ray_cluster.py

Reads one JSON object a line: {"add": {"name": ..., "environment": {...}}} starts a machine, {"remove": 1} ends the
newest as a power cut would. Answers each, and its own start, with {"address": HOST:PORT, "raylets": [process ids]}.
Ends at end of file.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import closing
from typing import Any

SETTINGS = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}  # a lost machine is missed in seconds
OBJECTS = 80_000_000  # bytes of each machine's object store: verdicts are small


def main() -> None:
    """Start it, and do what is asked."""
    from ray.cluster_utils import Cluster

    _wait_for_no_agents()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    cluster = Cluster(initialize_head=True, head_node_args={**_machine("first"), "_system_config": SETTINGS})
    nodes = [cluster.head_node, cluster.add_node(**_machine("second"))]

    def answer() -> None:
        raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
        print(json.dumps({"address": cluster.address, "raylets": raylets}), file=answers, flush=True)

    answer()
    for line in sys.stdin:
        asked = json.loads(line)
        if "add" in asked:
            nodes.append(cluster.add_node(**_machine(**asked["add"])))
        if "remove" in asked:
            cluster.remove_node(nodes.pop(), allow_graceful=False)
            cluster.wait_for_nodes()
        answer()
    cluster.shutdown()


def _wait_for_no_agents() -> None:
    """Tell new machines which services they do not have, before they ask their agents.

    Those take long to start where others work, and Ray ends a machine that has waited for them for 15 seconds.
    """
    from ray import _raylet as names
    from ray._private.node import Node

    start = Node.start_raylet

    def start_at_once(node: Any, *arguments: Any, **named: Any) -> None:
        for name in ("METRICS_AGENT", "METRICS_EXPORT", "DASHBOARD_AGENT_LISTEN"):
            names.persist_port(node._session_dir, node._node_id, getattr(names, f"{name}_PORT_NAME"), -1)
        start(node, *arguments, **named)

    Node.start_raylet = start_at_once


def _machine(name: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    unneeded = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
    size = {"num_cpus": 1, "object_store_memory": OBJECTS, "runtime_env_agent_port": _free_port()}
    return {"node_name": name, "env_vars": environment, **size, **unneeded}


def _free_port() -> int:
    with closing(socket.socket()) as held:
        held.bind(("", 0))
        port: int = held.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
