"""Test `permix bench`: measurements, output files and errors."""

import contextlib
import csv
import json
import re
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from PIL import Image

from keras_permix import zoo
from keras_permix.analysis import count_macs
from keras_permix.bench import layers as bench_layers
from keras_permix.bench import lra as bench_lra
from keras_permix.bench import models as bench_models
from keras_permix.bench import ops as bench_ops
from keras_permix.bench.timing import accelerator, peak_megabytes, runners
from keras_permix.cli import main
from keras_permix.ops.backend import running
from keras_permix.training.run import current_commit
from keras_permix.zoo import CSPViT, ViT
from tests.harness import assert_close, to_numpy


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def small(monkeypatch):
    """Reduce all benchmarks to small shapes and models."""
    small = {name: case._replace(shapes=((2, 8, 4),)) for name, case in bench_ops.CASES.items()}
    monkeypatch.setattr(bench_ops, "CASES", small)
    monkeypatch.setattr(bench_layers, "CASES", {"2x8": (2, 8, 64), "2x16": (2, 16, 64)})
    monkeypatch.setattr(bench_layers, "SHORT", {"2x8": (2, 8, 64)})
    size = dict(num_classes=10, image_size=8, patch_size=4, hidden_dim=8, num_layers=1, mlp_dim=8)
    text = dict(hidden_dim=8, num_layers=1, mlp_dim=8, max_sequence_length=7)
    graph = dict(hidden_dim=8, num_layers=1, mlp_dim=8, num_heads=2)
    cases = {
        "tiny": (bench_models.VITS, size, 2),
        "text": (bench_models.ENCODERS, text, 2),
        "graph": (bench_models.GRAPHORMERS, graph, 2),
    }
    monkeypatch.setattr(bench_models, "CASES", cases)
    monkeypatch.setattr("keras_permix.bench.timing.ROUND", 1e-3)


@pytest.fixture(autouse=True)
def allocator(monkeypatch):
    """Record calls that would change the allocator of this process permanently."""
    calls = []
    monkeypatch.setattr(
        "keras_permix.utils.machine.keep_freed_memory", lambda: calls.append("kept")
    )
    return calls


def bench(what, path, *arguments):
    """Run a short benchmark, check values common to all files, and return the rows."""
    assert main(["bench", what, "--repeats", "1", "--out", str(path), *arguments]) == 0
    rows = read(path)
    assert {row["backend"] for row in rows} == {keras.config.backend()}
    assert min(float(row.get("ms") or row["step_ms"]) for row in rows) > 0
    assert rows[0]["date"] in path.read_text()
    with Image.open(path.with_suffix(".png")) as picture:
        assert picture.width > 500
    return rows


@pytest.mark.parametrize(
    ("dtype", "cases"),
    [
        ("float32", ["full sort", "csp, pairs, masked"]),
        pytest.param("bfloat16", [], marks=pytest.mark.once),
    ],
)
def test_ops_are_compared_with_baselines(dtype, cases, small, tmp_path, capsys):
    chosen = ["--cases", *cases] if cases else []
    rows = bench("ops", tmp_path / "new" / "ops.csv", "--dtype", dtype, *chosen)
    assert {row["dtype"] for row in rows} == {dtype}
    here = [case for case in bench_ops.CASES if case not in bench_ops.OF_ACCELERATORS]
    assert [row["case"] for row in rows] == (cases or here)
    assert {(row["chip"], row["driver"]) for row in rows} == {("", "")}
    assert {row["commit"][:40] for row in rows} == {(current_commit() or "")[:40]}
    for baseline in ("attention", "linear_attention", "fourier"):
        assert all(row[f"vs_{baseline}"] for row in rows)
    assert [row["case"] for row in rows if row["vs_sort"]] == ["full sort"]
    masked = [row for row in rows if row["vs_unmasked"]]
    assert [row["case"] for row in masked] == [c for c in cases or here if "masked" in c]
    assert "reference" not in {row["implementation"] for row in masked}
    assert ": done" in capsys.readouterr().err


def test_accelerator_reports_chip_and_runs_huge_cases(small, tmp_path, monkeypatch, capsys):
    device = running.module("runtime")
    monkeypatch.setattr(device, "chip", lambda number=0: "NVIDIA H100")
    monkeypatch.setattr("keras_permix.bench.timing.accelerator", lambda: 0)
    monkeypatch.setattr(device, "peak_bytes", lambda call, number: 2_500_000)
    monkeypatch.setattr("keras_permix.utils.machine.driver", lambda: "NVIDIA 570.133.20")
    monkeypatch.setattr(bench_ops, "HUGE", (2, 8, 4))
    huge = {name: bench_ops.CASES[name] for name in bench_ops.OF_ACCELERATORS}
    monkeypatch.setattr(bench_ops, "CASES", huge)
    rows = bench("ops", tmp_path / "ops.csv")
    assert [row["case"] for row in rows] == list(bench_ops.OF_ACCELERATORS)
    assert {row["vs_attention"] for row in rows} == {""}
    assert {row["peak_mb"] for row in rows} == {"2"}
    named = {(row["chip"], row["driver"]) for row in rows}
    assert named == {("NVIDIA H100", "NVIDIA 570.133.20")}
    assert "NVIDIA H100\n" in capsys.readouterr().out


def test_cpu_device_reports_no_chip(small, tmp_path, monkeypatch):
    monkeypatch.setattr(running.module("runtime"), "chip", lambda number=0: "NVIDIA H100")
    rows = bench("ops", tmp_path / "ops.csv", "--device", "cpu:0", "--cases", "channel shift")
    assert {(row["chip"], row["driver"]) for row in rows} == {("", "")}
    assert "cpu" in rows[0]["device"].lower()


def test_huge_tensors_take_a_gigabyte():
    shapes = [shape for name in bench_ops.OF_ACCELERATORS for shape in bench_ops.CASES[name].shapes]
    assert min(2 * np.prod(shape) for shape in shapes) >= 2**30  # in 16 bits


def test_reference_is_compared_in_full_precision(small, monkeypatch):
    """With TF32 or bfloat16 products, correct results may differ by 1e-3."""
    exact, within = running.module("runtime").full_precision, []

    @contextlib.contextmanager
    def noted():
        with exact():
            within.append(precision())
            yield

    before = precision()
    monkeypatch.setattr(running.module("runtime"), "full_precision", noted)
    list(bench_ops.measure("simple attention", 1, "float32"))
    assert within and set(within) == {"highest"} and precision() == before
    within.clear()
    list(bench_ops.measure("csp, pairs", 1, "float32"))
    assert within == []


def precision():
    """Return the precision of float32 products; "highest" is float32."""
    if keras.config.backend() == "jax":
        import jax

        return jax.config.jax_default_matmul_precision
    if keras.config.backend() == "torch":
        import torch

        return torch.get_float32_matmul_precision()
    import tensorflow as tf

    short = tf.config.experimental.tensor_float_32_execution_enabled()
    return "tf32" if short else "highest"


@pytest.mark.skipif(keras.config.backend() != "torch", reason="uses CUDA events of PyTorch")
def test_gpu_is_timed_with_cuda_events(monkeypatch):
    import torch

    calls = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing
            calls.append("made")

        def record(self):
            calls.append("recorded")

        def synchronize(self):
            calls.append("waited")

        def elapsed_time(self, end):
            assert calls[-1] == "waited" and end is not self
            return 1500.0

    chip = torch.device("cuda:1")
    monkeypatch.setattr(keras.ops, "zeros", lambda shape: SimpleNamespace(device=chip))
    monkeypatch.setattr(
        torch.cuda, "device", lambda on: calls.append(on) or contextlib.nullcontext()
    )
    monkeypatch.setattr(torch.cuda, "Event", Event)
    assert running.module("runtime").seconds(lambda: calls.append("called")) == 1.5
    assert calls == [chip, "made", "made", "recorded", "called", "recorded", "waited"]


def test_layers_and_attention_in_short_cases_only(small, tmp_path):
    rows = bench("layers", tmp_path / "layers.csv", "--dtype", "bfloat16")
    short, long = ({r["layer"] for r in rows if r["tokens"] == n} for n in ("8", "16"))
    attention = {"MultiHeadAttention", "SoftmaxAttention"}
    assert short - long == attention | {"2 projections", "4 projections", "attention in blocks"}


def test_models(small, tmp_path):
    rows = bench("models", tmp_path / "models.csv")
    names = [(row["case"], row["model"]) for row in rows]
    cases = bench_models.CASES.items()
    assert names == [(case, name) for case, (contenders, *_) in cases for name in contenders]
    assert [row["tokens"] for row in rows] == ["4"] * 3 + ["7"] * 3 + ["9"] * 3
    assert [row["vs_attention"] for row in rows[::3]] == ["1.0"] * 3
    size = bench_models.CASES["tiny"][1]
    vit, csp = (count_macs(model(**size)).total for model in (ViT, CSPViT))
    assert rows[0]["vs_attention_macs"] == "1.0"
    assert float(rows[1]["vs_attention_macs"]) == round(vit / csp, 2) > 1
    assert min(float(row[name]) for row in rows for name in ("forward_ms", "first_step_s")) > 0


def test_models_against_other_packages(small, tmp_path):
    needs = {"keras_hub": "keras_hub"}
    if keras.config.backend() == "torch":
        needs |= {"timm": "torchvision", "torch_nn": "torch"}
    peers = [peer for peer, package in needs.items() if find_spec(package)]
    if not peers:
        pytest.skip("no other package of models is installed")
    rows = bench("models", tmp_path / "models.csv", "--cases", "tiny", "text", "--against", *peers)
    others = [row for row in rows if row["model"].startswith("ViT of ")]
    assert [row["model"] for row in others] == [f"ViT of {peer}" for peer in peers]
    assert {(row["case"], row["tokens"], row["vs_attention_macs"]) for row in others} == {
        ("tiny", "4", "1.0")
    }
    for row in others:  # Biases differ, and there is no class token.
        assert int(row["parameters"]) == pytest.approx(int(rows[0]["parameters"]), rel=0.1)
    if sys.platform == "linux" and keras.config.backend() != "tensorflow":
        assert min(float(row[f"{what}_mb"]) for row in rows for what in ("load", "step")) >= 0


@pytest.mark.skipif(keras.config.backend() == "torch", reason="PyTorch supports these peers")
def test_pytorch_peers_are_rejected_on_other_backends(small, capsys):
    assert main(["bench", "models", "--against", "timm"]) == 2
    assert "peers'" in capsys.readouterr().err


@pytest.fixture
def short(monkeypatch):
    """Reduce the Long Range Arena to texts of eight tokens and two mixers."""
    monkeypatch.setattr(bench_lra, "CASES", {"8": 8})
    monkeypatch.setattr(bench_lra, "TEXT", dict(hidden_dim=8, num_layers=1, mlp_dim=8))
    mixers = {name: bench_lra.mixers()[name] for name in ("attention", "csp")}
    monkeypatch.setattr(bench_lra, "mixers", lambda: mixers)
    monkeypatch.setattr("keras_permix.bench.timing.ROUND", 1e-3)


def test_long_texts(short, tmp_path):
    path = tmp_path / "lra.csv"
    assert main(["bench", "lra", "--repeats", "1", "--batch-size", "3", "--out", str(path)]) == 0
    rows = read(path)
    assert [(row["mixer"], row["tokens"], row["batch"]) for row in rows] == [
        ("attention", "8", "3"), ("csp", "8", "3")
    ]  # fmt: skip
    for column in ("train_steps_per_s", "infer_steps_per_s", "parameters"):
        assert min(float(row[column]) for row in rows) > 0
    assert path.with_suffix(".png").is_file()


def test_plot_is_skipped_without_matplotlib(short, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("keras_permix.cli.bench.find_spec", lambda name: None)
    path = tmp_path / "lra.csv"
    assert main(["bench", "lra", "--repeats", "1", "--batch-size", "3", "--out", str(path)]) == 0
    assert len(read(path)) == 2 and not path.with_suffix(".png").exists()
    assert "lra.png was not written: matplotlib is not installed." in capsys.readouterr().err


def test_text_lengths_are_multiples_of_block():
    assert all(length % bench_lra.BLOCK == 0 for length in bench_lra.CASES.values())


@pytest.mark.parametrize("name", bench_lra.mixers())
def test_long_texts_of_every_mixer(name, monkeypatch):
    mixer = bench_lra.mixers()[name]
    monkeypatch.setattr(bench_lra, "CASES", {"64": 64})
    monkeypatch.setattr(bench_lra, "TEXT", dict(hidden_dim=8, num_layers=1, mlp_dim=8))
    monkeypatch.setattr(bench_lra, "mixers", lambda: {name: mixer})
    monkeypatch.setattr("keras_permix.bench.timing.ROUND", 1e-3)
    (row,) = bench_lra.measure("64", repeats=1, dtype="float32", batch=2)
    assert row["mixer"] == name and row["train_steps_per_s"] > 0


def test_long_texts_out_of_memory_and_another_error(short, tmp_path, monkeypatch, capsys):
    errors = {"attention": MemoryError("RESOURCE_EXHAUSTED: Out of memory")}

    def made(name, arguments, batch):
        raise errors.get(arguments["mixer"]["name"], ValueError("another error"))

    monkeypatch.setattr(bench_lra, "make", made)
    path = tmp_path / "lra.csv"
    assert main(["bench", "lra", "--repeats", "1", "--out", str(path)]) == 2
    assert "another error" in capsys.readouterr().err
    (row,) = read(path)  # Rows measured before the error are kept.
    assert (row["mixer"], row["train_steps_per_s"], row["batch"]) == ("attention", "OOM", "4")


def test_case_out_of_memory_is_skipped(small, tmp_path, monkeypatch, capsys):
    right = bench_ops._functions

    def too_large(case, x):
        if case.operator == "full sort":
            raise MemoryError("RESOURCE_EXHAUSTED: Out of memory")
        return right(case, x)

    monkeypatch.setattr(bench_ops, "_functions", too_large)
    rows = bench("ops", tmp_path / "ops.csv", "--cases", "full sort", "channel shift")
    assert [row["case"] for row in rows] == ["channel shift"]
    assert "0 rows, full sort: out of memory\n1 rows," in capsys.readouterr().err
    assert main(["bench", "ops", "--repeats", "1", "--cases", "full sort"]) == 2
    assert "The model and the batch must fit into memory" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "kept"), [([], ["kept"]), (["--plain"], [])])
def test_the_allocator_is_unchanged_with_plain_option(arguments, kept, small, tmp_path, allocator):
    rows = bench("ops", tmp_path / "ops.csv", "--cases", "channel shift", *arguments)
    assert allocator == kept
    assert {row["freed_memory"] for row in rows} == {"".join(kept)}


@pytest.mark.parametrize("case", ["csp, pairs", "simple attention", "damped EMA"])
def test_a_wrong_operator_is_not_timed(case, small, monkeypatch, capsys):
    right = bench_ops._functions

    def wrong(case, x):
        operator, reference, served_by = right(case, x)
        return lambda x: 1.01 * operator(x), reference, served_by

    monkeypatch.setattr(bench_ops, "_functions", wrong)
    assert main(["bench", "ops", "--repeats", "1", "--cases", case]) == 2
    assert "The op must equal its reference. Received: case=" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["ops", "--cases", "nine"], ["ops", "--batch-size", "2"], ["ops", "--out", "."],
        ["ops", "--out", "mine.PNG"], ["ops", "--repeats", "0"], ["lra", "--batch-size", "0"],
    ],
)  # fmt: skip
def test_errors(arguments, capsys):
    assert main(["bench", *arguments]) == 2
    assert f"permix: error: `{arguments[1]}` " in capsys.readouterr().err


@pytest.mark.once
def test_out_must_be_csv_file(tmp_path, capsys):
    assert main(["bench", "ops", "--out", str(tmp_path / "mine.PNG")]) == 2
    assert "`--out` must end in .csv. Received: " in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_runners_return_layer_gradients():
    layer = keras.layers.Dense(3)
    x = np.random.default_rng(0).normal(size=(4, 2)).astype("float32")
    layer.build(x.shape)
    forward, both = runners(layer, x)
    kernel = to_numpy(layer.kernel)
    assert_close(to_numpy(forward()[0]), x @ kernel)
    result, for_x, for_kernel, for_bias = map(to_numpy, both())
    assert_close(for_x, result @ kernel.T)
    assert_close(for_kernel, x.T @ result)
    assert_close(for_bias, result.sum(axis=0))


def test_peak_memory_of_call():
    if (peak := peak_megabytes(lambda: np.ones(25_000_000, "float32").sum())) is None:
        assert sys.platform != "linux" or keras.config.backend() == "tensorflow"
        return
    assert 95 < peak < 130


def test_peak_memory_includes_results():
    x = np.ones((1024, 1024, 8), "float32")  # 33.6 MB
    _, both = runners(lambda x: 2.0 * x, x)
    if (peak := peak_megabytes(both)) is not None:
        assert peak > 0.9 * 2 * x.nbytes / 1e6


def test_peak_memory_is_read_from_default_device(monkeypatch):
    """Create tensors on the second of two devices."""
    device, on = running.module("runtime"), []

    def peak_bytes(call, number):
        on.append(number)
        return None if keras.config.backend() == "jax" else 2_500_000

    monkeypatch.setattr("keras_permix.bench.timing.accelerator", lambda: 1)
    monkeypatch.setattr(device, "peak_bytes", peak_bytes)
    assert peak_megabytes(lambda: None) == (None if keras.config.backend() == "jax" else 2.5)
    assert on == [1]


@pytest.mark.once
@pytest.mark.parametrize(
    ("device", "number"),
    [
        ("cuda:1", 1),  # PyTorch and JAX
        ("/job:localhost/replica:0/task:0/device:GPU:0", 0),
        ("TPU_2(process=0,(0,1,0,0))", 2),
        ("rocm:3", 3),
        (SimpleNamespace(device_set={"cuda:1", "cuda:2"}), 1),
        ("cpu", None),
        ("TFRT_CPU_0", None),
    ],
)
def test_accelerator_returns_device_number(device, number, monkeypatch):
    monkeypatch.setattr(keras.ops, "zeros", lambda shape: SimpleNamespace(device=device))
    assert accelerator() == number


@pytest.mark.skipif(keras.config.backend() != "torch", reason="counted by PyTorch")
def test_torch_gpu_peak_excludes_held_memory(monkeypatch):
    held = {"now": 70, "peak": 900}  # before the call; an earlier call set the peak

    def call():
        held.update(peak=max(held["peak"], held["now"] + 40))

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.reset_peak_memory_stats", lambda number: held.update(peak=70))
    monkeypatch.setattr("torch.cuda.memory_allocated", lambda number: held["now"])
    monkeypatch.setattr("torch.cuda.max_memory_allocated", lambda number: held["peak"])
    monkeypatch.setattr("torch.cuda.synchronize", lambda number: None)
    assert running.module("runtime").peak_bytes(call, 1) == 40


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="counted by TensorFlow")
def test_tensorflow_gpu_peak_excludes_held_memory(monkeypatch):
    of = "tensorflow.config.experimental"
    held = {"current": 70, "peak": 900}  # before the call; an earlier call set the peak
    monkeypatch.setattr("tensorflow.config.list_physical_devices", lambda kind: [kind])
    monkeypatch.setattr(f"{of}.reset_memory_stats", lambda device: held.update(peak=70))
    monkeypatch.setattr(f"{of}.get_memory_info", lambda device: dict(held))
    device, more = running.module("runtime"), lambda: held.update(peak=max(held["peak"], 110))
    assert device.peak_bytes(more, 1) == 40


@pytest.mark.once
@pytest.mark.parametrize("case", bench_models.CASES)
def test_contenders_share_task_and_output_shape(case):
    contenders, shared, _ = bench_models.CASES[case]
    models = [zoo.MODELS[name](**{**shared, **own}) for name, own in contenders.values()]
    assert len({(model.task, model.output_shape) for model in models}) == 1
    assert len({json.dumps(model.get_config(), default=str) for model in models}) == len(models)


@pytest.mark.once
@pytest.mark.parametrize("name", ["mine.csv", "mine.png"])
def test_unrelated_files_are_not_overwritten(name, tmp_path, capsys):
    (tmp_path / name).write_text("mine")
    assert main(["bench", "ops", "--out", str(tmp_path / "mine.csv")]) == 2
    assert re.search(r"`--out` must be a new file.* Received: .*mine", capsys.readouterr().err)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
