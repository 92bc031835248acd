"""Two TensorFlow workers on this machine, as MultiWorkerMirroredStrategy has them: each with half of 64 samples.

    python tensorflow_two_workers.py

Starts itself twice more, with TF_CONFIG set, and prints what the workers print: after 40 steps both have one weight
vector, the one of a single worker with all 64 samples. Needs `pip install tensorflow`; needs no GPU.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

WORKERS, SAMPLES, STEPS, RATE = 2, 64, 40, 0.05


def main() -> int:
    """Start the workers, and print what they say."""
    addresses = free_addresses(WORKERS)
    workers = []
    for index in range(WORKERS):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(config), "TF_CPP_MIN_LOG_LEVEL": "3"}
        environment["CUDA_VISIBLE_DEVICES"] = "-1"
        command = [sys.executable, __file__, "worker"]
        workers.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    said = [worker.communicate() for worker in workers]
    for output, _ in said:
        print(output, end="")
    failed = [errors for worker, (_, errors) in zip(workers, said, strict=True) if worker.returncode]
    if failed:
        print(failed[0][-2000:], file=sys.stderr)
    return 1 if failed else 0


def free_addresses(number: int) -> list[str]:
    """So many addresses of this machine that nobody listens at now."""
    probes = [socket.socket() for _ in range(number)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]
    for probe in probes:
        probe.close()
    return addresses


def work() -> None:
    """One worker: synchronous steps on its share of the samples."""
    import numpy as np
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # first of all: it connects the workers
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    draw = np.random.default_rng(0)
    x = draw.standard_normal((SAMPLES, 10)).astype("float32")
    y = draw.standard_normal((SAMPLES, 1)).astype("float32")
    mine = slice(index * SAMPLES // WORKERS, (index + 1) * SAMPLES // WORKERS)
    with strategy.scope():
        # what replicas assign is combined: here the mean of their updates, that is of their gradients
        weights = tf.Variable(tf.zeros((10, 1)), aggregation=tf.VariableAggregation.MEAN)

    @tf.function
    def step(inputs, targets):  # type: ignore[no-untyped-def]
        def replica(own_inputs, own_targets):  # type: ignore[no-untyped-def]
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(own_inputs @ weights - own_targets))
            weights.assign_sub(RATE * tape.gradient(loss, weights))

        strategy.run(replica, args=(inputs, targets))

    for _ in range(STEPS):
        step(tf.constant(x[mine]), tf.constant(y[mine]))
    alone = np.zeros((10, 1), "float32")
    for _ in range(STEPS):
        alone -= RATE * 2 * x.T @ (x @ alone - y) / SAMPLES
    apart = float(np.abs(weights.numpy() - alone).max())
    print(f"worker {index}: {strategy.num_replicas_in_sync} replicas in sync; one worker differs by {apart:.1g}")


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        work()
    else:
        raise SystemExit(main())
