"""Test distributed training: results match one device, invalid setups raise."""

import contextlib
import dataclasses
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_permix import data, zoo
from keras_permix.layers import TokenEmbedding
from keras_permix.tasks import task_of
from keras_permix.training.callbacks import Together
from keras_permix.training.distribute import Distribution, distributed
from keras_permix.training.distribute.distribution import Processes
from keras_permix.training.distribute.jax import (
    Devices,
    DividedWeights,
    check_divides,
    divided_axis,
)
from tests.__main__ import fast_compilation
from tests.harness import ROOT
from tests.harness.processes import environment
from tests.tolerances import TOLERANCES
from tests.training import runs, together
from tests.zoo.models import FAMILIES, TINY, tiny

BACKEND = keras.config.backend()
SECONDS = 300  # generous, since other tests run in parallel
DEVICES = "--xla_force_host_platform_device_count=8"
FLAGS = fast_compilation(BACKEND).get("XLA_FLAGS", "")
# Backend -> case -> (kind, processes, devices in total, environment).
SHARED = {
    "jax": {
        "devices": ("data", 1, 8, {"XLA_FLAGS": f"{FLAGS} {DEVICES}"}),
        "weights": ("model", 1, 8, {"XLA_FLAGS": f"{FLAGS} {DEVICES}"}),
        "processes": ("data", 2, 2, {"XLA_FLAGS": FLAGS}),
    },
    "tensorflow": {
        "devices": ("auto", 1, 2, {"LOGICAL_CPUS": "2"}),
        "processes": ("auto", 2, 2, {}),
    },
    "torch": {"processes": ("auto", 2, 2, {})},
}[BACKEND]


def start(out, kind, count, changes, *arguments):
    """Start the processes of a run, with the environment variables of all backends."""
    with contextlib.ExitStack() as stack:
        free = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in free:
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in free]
    command = [sys.executable, "-m", "tests.training.together", str(out), kind, *arguments]
    host, port = addresses[0].split(":")
    for number, index in enumerate(map(str, range(count))):
        environ = {"OMP_NUM_THREADS": "1", **changes}
        if count > 1:
            task = {"type": "worker", "index": number}
            environ |= {
                "MASTER_ADDR": host, "MASTER_PORT": port, "RANK": index, "WORLD_SIZE": str(count),
                "KERAS_DISTRIBUTION_JOB_ADDRESSES": addresses[0],
                "KERAS_DISTRIBUTION_NUM_PROCESSES": str(count),
                "KERAS_DISTRIBUTION_PROCESS_ID": index,
                "TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": task}),
            }  # fmt: skip
        yield subprocess.Popen(
            command, env=environment(**environ), cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip


def wait_for(processes):
    """Return the exit code, standard output and standard error of each process."""
    try:
        outputs = [process.communicate(timeout=SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(p.returncode, *output) for p, output in zip(processes, outputs, strict=True)]


@pytest.fixture(scope="module")
def one_device(tmp_path_factory):
    """Train on one device. Returns rows, scores and weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "load_images", data.load_images)  # `run` replaces it
        return together.run(tmp_path_factory.mktemp("one_device") / "run")


def check(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, **TOLERANCES["model"]["float32"])


@pytest.mark.parametrize("case", SHARED)
def test_distributed_run_matches_one_device(case, one_device, tmp_path):
    kind, count, devices, changes = SHARED[case]
    out = tmp_path / "run"
    for index, (code, output, error) in enumerate(wait_for([*start(out, kind, count, changes)])):
        assert code == 0, error
        assert f"process {index} of {count}, {devices} devices" in output
        with np.load(out / f"{index}.npz") as found:
            check(found.values(), one_device)
    assert (out / "README.md").is_file() and (out / "preset" / "metadata.json").is_file()


class IdenticalProcesses(Processes):
    """Simulate two processes that compute the same."""

    def __init__(self):
        super().__init__(0, 2)

    def add_up(self, vector):
        return vector + vector


class Count(keras.metrics.Metric):
    """Count batches in an integer variable."""

    def __init__(self):
        super().__init__(name="count")
        self.batches = self.add_weight((), "zeros", "int32", name="batches")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.batches.assign_add(1)

    def result(self):
        return self.batches


@pytest.mark.skipif(BACKEND == "jax", reason="JAX has one program for all processes")
@pytest.mark.filterwarnings("ignore:Gradients do not exist for variables")  # of an unused layer
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(
    "optimizer",
    [
        partial(keras.optimizers.SGD, 0.5, momentum=0.9),
        partial(keras.optimizers.Adam, 0.1),
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.5, clipnorm=0.01)),
    ],
)
def test_gradients_and_metrics_are_averaged(optimizer, frozen):
    """SGD fails if gradients are summed; Adam fails if they are squared before the reduction."""
    tokens = np.random.default_rng(0).integers(0, 9, (32, 5))
    found = []
    for here in (Distribution(), IdenticalProcesses()):
        keras.utils.set_random_seed(0)
        inputs = keras.Input((5,), dtype="int32")
        x = TokenEmbedding(9, 4, max_sequence_length=5)(inputs)
        x = keras.layers.GlobalAveragePooling1D()(x)
        unused = keras.layers.Dense(3, name="unused")(x)
        outputs = keras.layers.Dense(2, use_bias=False, name="head")(x)
        model = keras.Model(inputs, outputs + 0 * keras.ops.stop_gradient(unused[:, :1]))
        if frozen:  # One trainable weight is left.
            for layer in model.layers:
                layer.trainable = layer.name == "head"
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer(), loss, metrics=["accuracy", Count()])
        here.prepare(model)
        history = model.fit(
            tokens, tokens[:, 0] % 2, batch_size=8, epochs=2, verbose=0,
            validation_data=(tokens, tokens[:, 0] % 2), callbacks=[Together(here, 4)],
        ).history  # fmt: skip
        assert history.pop("val_count") == [here.count * 4] * 2
        batches = history.pop("count")
        assert batches == [here.count * 4] * 2
        found.append([*model.get_weights(), *map(np.array, history.values())])
    for expected, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, **TOLERANCES["model"]["float32"])


@pytest.mark.skipif(BACKEND == "jax", reason="JAX has one program for all processes")
def test_optimizer_of_a_finished_run_needs_no_other_process(tmp_path):
    recipe = dataclasses.replace(runs.RECIPE, epochs=1)
    data, here = runs.make_images(), IdenticalProcesses()
    here.broadcast = lambda content: content
    model, _ = runs.train(recipe, data, tmp_path, verbose=0, distribution=here)
    here.add_up = None  # as after the end of the other processes
    model.fit(task_of(model).batches(data.train, 16), verbose=0)
    assert isinstance(model.optimizer, keras.optimizers.AdamW)


@pytest.mark.skipif(BACKEND == "jax", reason="JAX has one program for all processes")
def test_processes_require_one_step_per_execution():
    Distribution().check(16, 2 if BACKEND == "tensorflow" else 1)
    IdenticalProcesses().check(16, 1)
    with pytest.raises(ValueError, match="steps_per_execution=2"):
        IdenticalProcesses().check(16, 2)


@pytest.mark.skipif(BACKEND == "jax", reason="JAX has one program for all processes")
def test_saved_model_contains_plain_optimizer(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.25), "mse")
    IdenticalProcesses().prepare(model)
    model.fit(np.ones((4, 2)), np.ones(4), verbose=0)
    model.save(tmp_path / "model.keras")
    optimizer = keras.saving.load_model(tmp_path / "model.keras").optimizer
    assert type(optimizer).__name__ == "Adam" and float(optimizer.learning_rate) == 0.25
    for ours, theirs in zip(optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("lost", [0, 1])
def test_run_resumes_after_lost_process(lost, one_device, tmp_path, monkeypatch):
    out, (*_, changes) = tmp_path / "run", SHARED["processes"]
    found = wait_for([*start(out, "data", 2, changes, str(lost), "1")])
    assert found.pop(lost)[0] == -signal.SIGKILL
    ((code, _, error),) = found
    assert code == (-signal.SIGABRT if BACKEND == "jax" else 1)
    if BACKEND != "jax" or lost:  # JAX terminates the others if the first process is lost.
        assert (
            "ConnectionError: Another process of this run has ended or cannot be reached" in error
        )
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["epoch_0001"]
    if lost:
        again = shutil.copytree(out, tmp_path / "again")
        check_processes(again, changes, one_device)
    monkeypatch.setattr(data, "load_images", data.load_images)
    check(together.run(out), one_device)


def check_processes(out, changes, expected):
    for index, (code, _, error) in enumerate(wait_for([*start(out, "data", 2, changes)])):
        assert code == 0, error
        with np.load(out / f"{index}.npz") as found:
            check(found.values(), expected)


def test_data_parallelism_on_one_device_raises():
    with pytest.raises(ValueError, match=r"`distribute='data'` requires several devices"):
        with distributed("data"):
            pass
    with distributed("auto") as here:
        assert (here.shard, here.devices, here.is_chief) == ((0, 1), 1, True)


def test_batch_normalization_on_several_devices_raises():
    here = Distribution()
    here.refuse_batch_norms(tiny("MEGA", norm="batchnorm"))
    here.devices = 2
    here.refuse_batch_norms(tiny("MEGA"))
    with pytest.raises(ValueError, match="BatchNormalization.*Received: "):
        here.refuse_batch_norms(tiny("MEGA", norm="batchnorm"))


@pytest.mark.skipif(BACKEND == "jax", reason="JAX divides weights")
def test_model_parallelism_requires_jax():
    with pytest.raises(ValueError, match="`distribute='model'` requires JAX"):
        with distributed("model"):
            pass


@pytest.mark.skipif(BACKEND != "tensorflow", reason="TensorFlow's replicas")
def test_replicas_clip_global_norm_and_vary_dropout():
    command = [sys.executable, "-m", "tests.training.replicas"]
    done = subprocess.run(
        command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    mean = np.array([3, 2])  # mean gradient of all samples
    for case in ("1 devices", "1 devices, scaled", "2 devices", "2 devices, scaled"):
        expected = -mean / np.linalg.norm(mean)
        np.testing.assert_allclose(found[case], expected, **TOLERANCES["model"]["float32"])
    assert found["infinite"] == [0, 0]
    first, second = found["masks"]
    assert set(first) == set(second) == {0, 2} and first != second


@pytest.mark.skipif(BACKEND != "tensorflow", reason="TensorFlow's replicas")
@pytest.mark.parametrize("scaled", [False, True])
def test_replicas_do_not_accumulate_gradients(scaled):
    from keras_permix.training.distribute.tensorflow import Replicas

    optimizer, model = keras.optimizers.SGD(gradient_accumulation_steps=4), tiny("CSPViT")
    model.compile(keras.optimizers.LossScaleOptimizer(optimizer) if scaled else optimizer, "mse")
    with pytest.raises(ValueError, match="`gradient_accumulation_steps` must be None.*: 4"):
        Replicas(SimpleNamespace(num_replicas_in_sync=2)).prepare(model)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="TensorFlow's variable")
@pytest.mark.parametrize("task", [{}, {"type": "evaluator", "index": 0}, {"type": "worker"}])
def test_invalid_tf_config_task_raises(task, monkeypatch):
    config = {"cluster": {"worker": ["one:1", "two:1"]}, "task": task}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(ValueError, match=re.escape(f"Received: {task=}")):
        with distributed("auto"):
            pass


@pytest.mark.parametrize("name", (*FAMILIES, "ButterflyViT", "CSPViT"))
def test_every_kernel_of_zoo_is_divided(name):
    weights = zoo.MODELS[name](**TINY[name]).trainable_variables
    large = [w for w in weights if w.path.endswith(("/kernel", "/embeddings", "table"))]
    assert large
    assert [w.path for w in large if divided_axis(w.path, w.shape, 1) is None] == []


def test_indivisible_model_warns():
    patches, csp = (zoo.MODELS[name](**TINY[name]) for name in ("PatchOnlyMLPMixer", "CSPViT"))
    with pytest.warns(UserWarning, match="divides 0% of the parameters of this PatchOnlyMLPMixer"):
        check_divides(patches, 64)
    with pytest.warns(UserWarning, match=r"divides \d+% of the parameters of this ButterflyMixer"):
        check_divides(zoo.ButterflyMixer(), 8)
    check_divides(csp, 2)
    csp.trainable = False  # Frozen weights are divided as well.
    check_divides(csp, 2)


@pytest.mark.skipif(BACKEND != "jax", reason="JAX divides weights")
def test_model_parallelism_checks_model(monkeypatch):
    here = Devices(DividedWeights())
    monkeypatch.setattr(here, "devices", 64)
    with pytest.warns(UserWarning, match="each of the 64 devices holds all others"):
        here.prepare(tiny("PatchOnlyMLPMixer"))


def test_batch_size_must_be_multiple_of_devices(monkeypatch):
    here = Distribution()
    monkeypatch.setattr(here, "devices", 3)
    here.check(12, 1)
    with pytest.raises(ValueError, match="multiple of the 3 devices.* batch_size=16"):
        here.check(16, 1)
