"""Starts Ray and reads its tables, in a process of its own that never sees the learner's code.

A Ray of one node: the global control store, a raylet and its object store. No dashboard, no agents, no logs to drivers.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from grader.jobs.rays import environments
from grader.sandbox import frames

FOLDER = Path(__file__).parent
MEMORY_BYTES = 4 * 2**30  # that Ray thinks there is; the box's keeper holds it to what it may really use
NOBODY = 1025  # the port of all that is not started here
PORT = "RANKUP_RAY_ENVIRONMENTS"  # of the agent that is
CONFIG = {
    "task_events_report_interval_ms": 100,
    "enable_metrics_collection": False,
    "worker_niceness": 0,
    "memory_monitor_refresh_ms": 0,
}
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",  # where boxes share a network with others
    "RAY_JOB_ID": "ffffffff",  # of workers: none yet, the first task that they are given tells
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # "no cluster": addresses are those of loopback
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    "RAY_TRAIN_V2_ENABLED": "1",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.1",  # how often it looks for reports and for the dead
}


def observe(folder: Path, plasma: str, cpus: int, store_bytes: int, channel: frames.Channel) -> None:
    """Start Ray below `folder`, with objects in the folder `plasma`, and answer questions until nobody asks."""
    from ray._common import utils
    from ray._private import services
    from ray._private import utils as more
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    services.start_api_server = lambda *_, **__: (None, None)
    services._build_python_executable_command_memory_profileable = lambda _, session: [
        "/bin/sh", str(FOLDER / "agents.sh"), session,
    ]  # fmt: skip
    utils.get_system_memory = lambda *_: MEMORY_BYTES  # control groups' files are not to be read everywhere
    more.estimate_available_memory = lambda: MEMORY_BYTES
    port = environments.serve()
    os.environ[PORT] = str(port)
    node = Node(
        RayParams(
            num_cpus=cpus, object_store_memory=store_bytes, temp_dir=str(folder), plasma_directory=plasma,
            node_ip_address="127.0.0.1", include_dashboard=False, include_log_monitor=False, no_monitor=True,
            metrics_agent_port=NOBODY, metrics_export_port=NOBODY + 1, dashboard_agent_listen_port=NOBODY + 2,
            runtime_env_agent_port=port, _system_config=CONFIG, setup_worker_path=str(FOLDER / "launch.py"),
        ),
        head=True, shutdown_at_exit=False, spawn_reaper=False,
    )  # fmt: skip
    raylet = node.all_processes["raylet"][0].process.pid
    ours = [each.process.pid for found in node.all_processes.values() for each in found]
    channel.post({"address": node.address, "raylet": raylet, "pids": [*ours, os.getpid()]})
    tables = _tables(node)
    while (asked := channel.next()) is not None:
        channel.post({"answer": {"tasks": _tasks, "actors": _actors}[asked.header["ask"]](tables)})


def _tables(node: Any) -> Any:
    private: Any = importlib.import_module("ray._raylet")

    tables = private.GlobalStateAccessor(
        private.GcsClientOptions.create(node.gcs_address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=True)
    )
    if not tables.connect():
        raise ConnectionError("Ray's control store does not answer")
    return tables


def _tasks(tables: Any) -> list[dict[str, Any]]:
    """Every attempt of every task that Ray knows of: when, in ns, it was in which state."""
    from ray.core.generated import common_pb2, gcs_pb2

    names = {value: name for name, value in common_pb2.TaskStatus.items()}
    found = []
    for data in tables.get_task_events():
        event = gcs_pb2.TaskEvents.FromString(data)
        times = {names[state]: at for state, at in event.state_updates.state_ts_ns.items()}
        found.append(
            {"id": event.task_id.hex(), "job": event.job_id.hex(), "attempt": event.attempt_number,
             "name": event.task_info.name, "kind": event.task_info.type, "times": times}
        )  # fmt: skip
    return found


def _actors(tables: Any) -> list[dict[str, Any]]:
    """Every actor, which process it is, and how it is."""
    from ray.core.generated import gcs_pb2

    found = []
    for data in tables.get_actor_table(None, None):
        actor = gcs_pb2.ActorTableData.FromString(data)
        state = gcs_pb2.ActorTableData.ActorState.Name(actor.state)
        found.append(
            {"id": actor.actor_id.hex(), "job": actor.job_id.hex(), "class": actor.class_name, "pid": actor.pid,
             "state": state, "restarts": int(actor.num_restarts)}
        )  # fmt: skip
    return found
