"""Two TensorFlow workers with MultiWorkerMirroredStrategy: a loop of our own, and fit() of Keras 2 and of Keras 3.

    python tensorflow_two_workers.py [--json]

needs TensorFlow and tf-keras (`make labs LABS=tensorflow` sets up an environment: 1.6 GB), and no GPU. The lab starts
itself twice for each way, with TF_CONFIG set, on the loopback interface. Each worker takes half of 64 samples. After 40
steps both must have one weight vector: the one of a single worker with all 64 samples. Keras 3's fit() does not take
what the strategy hands to it (Keras, issue 20585, open since December 2024). TensorFlow's tutorials *Multi-worker
training with Keras* and *Custom training loop with Keras and MultiWorkerMirroredStrategy*. A minute or two.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from servers import MissingError, Seen, Server, Servers, free_ports, main, until

MISSING = "TensorFlow is not installed: make labs LABS=tensorflow sets up an environment for it"
PATIENCE = 250  # seconds, on a machine that is busy with other things
WORKERS, SAMPLES, STEPS, RATE = 2, 64, 40, 0.05
EXACT = 1e-5  # how far weights in float32 may be from those of one worker


def samples() -> tuple[Any, Any]:
    import numpy as np

    draw = np.random.default_rng(0)
    x = draw.standard_normal((SAMPLES, 10)).astype("float32")
    return x, draw.standard_normal((SAMPLES, 1)).astype("float32")


def share(index: int) -> slice:
    return slice(index * SAMPLES // WORKERS, (index + 1) * SAMPLES // WORKERS)


def alone() -> Any:
    """The weights of one worker that has all samples."""
    import numpy as np

    x, y = samples()
    weights = np.zeros((10, 1), "float32")
    for _ in range(STEPS):
        weights -= RATE * 2 * x.T @ (x @ weights - y) / SAMPLES
    return weights


def own_loop(tf: Any, strategy: Any, index: int) -> Any:
    """A variable and a step of our own."""
    x, y = samples()
    with strategy.scope():
        # what replicas assign is combined: here the mean of their updates, that is of their gradients
        weights = tf.Variable(tf.zeros((10, 1)), aggregation=tf.VariableAggregation.MEAN)

    @tf.function
    def step(inputs: Any, targets: Any) -> None:
        def replica(own_inputs: Any, own_targets: Any) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(own_inputs @ weights - own_targets))
            weights.assign_sub(RATE * tape.gradient(loss, weights))

        strategy.run(replica, args=(inputs, targets))

    for _ in range(STEPS):
        step(tf.constant(x[share(index)]), tf.constant(y[share(index)]))
    return weights.numpy()


def model_in_loop(tf: Any, strategy: Any, index: int) -> Any:
    """A model and an optimizer of Keras, and a step of our own around them."""
    x, y = samples()
    with strategy.scope():
        model, optimizer = _model(tf.keras), tf.keras.optimizers.SGD(RATE)
        optimizer.build(model.trainable_variables)

    @tf.function
    def step(inputs: Any, targets: Any) -> None:
        def replica(own_inputs: Any, own_targets: Any) -> None:
            with tf.GradientTape() as tape:
                # gradients are summed over the replicas: the loss is divided by the global batch
                loss = tf.reduce_sum(tf.square(model(own_inputs) - own_targets)) / SAMPLES
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

        strategy.run(replica, args=(inputs, targets))

    for _ in range(STEPS):
        step(tf.constant(x[share(index)]), tf.constant(y[share(index)]))
    return model.get_weights()[0]


def fit(tf: Any, strategy: Any, _index: int) -> Any:
    """compile() and fit(): the batch is the global one, of which each worker gets its part."""
    with strategy.scope():
        model = _model(tf.keras)
        model.compile(optimizer=tf.keras.optimizers.SGD(RATE), loss="mse")
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    data = tf.data.Dataset.from_tensor_slices(samples()).batch(SAMPLES).repeat().with_options(options)
    model.fit(data, epochs=1, steps_per_epoch=STEPS, verbose=0)
    return model.get_weights()[0]


def _model(keras: Any) -> Any:
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    return keras.Sequential([keras.layers.Input((10,)), dense])


# the way's name -> (its program, whether tf.keras is Keras 2)
WAYS: dict[str, tuple[Callable[[Any, Any, int], Any], bool]] = {
    "a loop of our own": (own_loop, False),
    "Keras 2, compile() and fit()": (fit, True),
    "Keras 3, compile() and fit()": (fit, False),
    "Keras 3's model in a loop of our own": (model_in_loop, False),
}


def work(way: str, index: int, folder: Path) -> None:
    """One worker: writes its weights, or what was raised, without its middle."""
    program, legacy = WAYS[way]
    if legacy:
        os.environ["TF_USE_LEGACY_KERAS"] = "1"  # tf.keras is then tf-keras; it is read at the import
    import tensorflow as tf  # type: ignore[import-not-found,unused-ignore]

    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # first of all: it connects the workers
    told: dict[str, Any] = {"replicas": strategy.num_replicas_in_sync}
    try:
        told["weights"] = program(tf, strategy, index).ravel().tolist()
    except Exception as error:
        text = " ".join(str(error).split())
        told["raised"] = f"{type(error).__name__}: {text[:60]} ... {text[-110:]}" if len(text) > 180 else text
    path = folder / f"{index}.json"
    path.with_suffix(".new").write_text(json.dumps(told))
    path.with_suffix(".new").rename(path)
    time.sleep(PATIENCE)  # it is ended: a worker that leaves first takes the other one with it


def play(servers: Servers, number: int, way: str) -> list[dict[str, Any]]:
    """What both workers tell."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(WORKERS)]
    folder = servers.folder / str(number)
    folder.mkdir()
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    here = [sys.executable, str(Path(__file__).resolve()), "worker", way]
    workers: list[Server] = []
    for index in range(WORKERS):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        os.environ["TF_CONFIG"] = json.dumps(config)
        workers.append(servers.start(f"{number}-worker-{index}", [*here, str(index), str(folder)]))
    paths = [folder / f"{index}.json" for index in range(WORKERS)]

    def told() -> bool:
        if any(worker.process.poll() not in (None, 0) for worker in workers):
            raise RuntimeError(f"a worker died: {way}")
        return all(path.exists() for path in paths)

    until(f"both workers have told: {way}", PATIENCE, told)
    for worker in workers:
        worker.end()
    return [json.loads(path.read_text()) for path in paths]


def lab(servers: Servers, seen: Seen) -> None:
    """Raises MissingError."""
    if importlib.util.find_spec("tensorflow") is None or importlib.util.find_spec("tf_keras") is None:
        raise MissingError(MISSING)
    import numpy as np

    expected = alone().ravel()
    for number, way in enumerate(WAYS):
        told = play(servers, number, way)
        raised = next((each["raised"] for each in told if "raised" in each), None)
        seen.row(way, f"{told[0]['replicas']} replicas in sync")
        name = ("loop", "keras2", "keras3", "keras3_loop")[number]
        if raised:
            seen.row("  it raised", raised)
            seen.figures.update({name: "fails", f"{name}_raised": raised})
            continue
        first, second = (np.array(each["weights"]) for each in told)
        apart, off = float(np.abs(first - second).max()), float(np.abs(first - expected).max())
        seen.row("  both workers' weights; and one worker's with all samples", f"{apart:.1g} apart; {off:.1g} off")
        seen.figures.update({name: "right" if apart == 0 and off < EXACT else "wrong", f"{name}_off": off})


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["worker", way, index, folder]:
            work(way, int(index), Path(folder))
        case arguments:
            sys.exit(main(lab, arguments))
