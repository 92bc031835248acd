"""Submits the lab's job to a Flink cluster: numbers from 1 on, a line for each. It runs in Flink's own environment.

    python flink_job.py REST_PORT EVENTS EVENTS_A_SECOND OUT CHECKPOINTS

prints the job's id. The source knows where it is (its state is in the checkpoint), the sink publishes a file only with
the checkpoint that covers it (Flink's manual: Fault tolerance guarantees of data sources and sinks; FileSystem).
"""

from __future__ import annotations

import sys

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment


def main(port: str, events: str, rate: str, out: str, checkpoints: str) -> None:
    settings = {
        "execution.target": "remote", "rest.address": "127.0.0.1", "rest.port": port, "parallelism.default": "2",
        "execution.checkpointing.interval": "500ms", "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.dir": f"file://{checkpoints}", "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000", "restart-strategy.fixed-delay.delay": "500ms",
    }  # fmt: skip
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    tables = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    )
    tables.execute_sql(
        f"CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '{rate}', "
        f"'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{events}')"
    )
    tables.execute_sql(
        f"CREATE TABLE written (id BIGINT) WITH ('connector' = 'filesystem', 'path' = 'file://{out}', 'format' = 'csv')"
    )
    submitted = tables.execute_sql("INSERT INTO written SELECT id FROM numbers")
    print(submitted.get_job_client().get_job_id())


if __name__ == "__main__":
    main(*sys.argv[1:])
