"""Write the tables of the pages from cards in `zoo/` and measurements in `benchmarks/`.

    python tools/tables.py            # rewrite them
    python tools/tables.py --check    # fail if they are out of date

A table is between `<!-- NAME -->` and `<!-- end NAME -->` on one of the `PAGES`.
"""

import csv
import json
import re
import sys
import tomllib
from functools import partial
from pathlib import Path
from statistics import mean, stdev

from keras_permix.data.graphs.sets import TARGETS
from keras_permix.lra.published import (
    CSP_PAPER,
    DM_PAPER,
    PUBLISHED,
    ROWS,
    SLICE_PAPER,
    TASKS,
    TRON_PAPER,
)
from keras_permix.lra.recipes import MODELS
from keras_permix.lra.results import in_words, means, read_results

ROOT = Path(__file__).resolve().parents[1]
PAGES = tuple(ROOT / folder / "README.md" for folder in ("", "benchmarks", "zoo"))
PAGES += (ROOT / "benchmarks" / "kernels.md",)
PAGES += tuple(
    ROOT / "docs" / name
    for name in ("guides/export.md", "guides/streaming.md", "reproduce.md", "site/explorer.md")
)
# Page of `docs/models` -> classes.
FAMILIES = {
    "vit": ("cspvit", "slicevit", "vit"),
    "butterfly_vit": ("butterflyvit",),
    "mlp_mixer": ("butterflymixer", "mlpmixer"),
    "patch_only_mlp_mixer": ("patchonlymlpmixer",),
    "lra_transformer": ("lratransformer",),
    "mega": ("cspmega", "mega"),
    "simpletron": ("simpletron",),
    "graphormer": ("graphormer", "slicegraphormer"),
}
PAGES += tuple(ROOT / "docs" / "models" / f"{name}.md" for name in FAMILIES)
BACKENDS = ("jax", "tensorflow", "torch")


# By mixer: cost for N tokens, parameters for C channels, causal form, whether mixing depends on
# content, and the paper, as in docs/mixers.md.
FACTS = {
    "CSP": (
        "N", "2 C² + C", "`CausalCSP`", "order of values only", "[2024](https://arxiv.org/abs/2410.10914)",
    ),
    "SliceSort": (
        "N log² N", "2 C² + C", "no", "order of values only", "[2023](https://arxiv.org/abs/2310.17683)",
    ),
    "SimpleAttention": (
        "N", "4 C² + 4 C", "yes", "yes", "[2022](https://arxiv.org/abs/2111.15588)",
    ),
    "ButterflyBlock": (
        "N √N", "those of attention", "no", "yes", "[2023](https://arxiv.org/abs/2311.18735)",
    ),
    "DampedEMA": ("N", "65 C", "yes", "no", "[2022](https://arxiv.org/abs/2209.10655)"),
    "SoftmaxAttention": (
        "N²", "4 C² + C", "yes", "yes", "[2017](https://arxiv.org/abs/1706.03762)",
    ),
}  # fmt: skip
NAMES = {"ButterflyBlock": "`ButterflyBlock` around attention"}
# By preset on the README: its task, its attention baseline, and the case of `permix bench models`
# that measures the same model.
PRETRAINED = {
    "cspvit/cifar10_small": ("CIFAR-10, top-1", "vit/cifar10_small", ("cifar10_small", "CSPViT")),
    "slicevit/cifar10_small": (
        "CIFAR-10, top-1", "vit/cifar10_small", ("cifar10_small", "SliceViT"),
    ),
    "patchonlymlpmixer/cifar10": (
        "CIFAR-10, top-1", None, ("cifar10, mixers", "PatchOnlyMLPMixer"),
    ),
    "butterflymixer/cifar10": ("CIFAR-10, top-1", None, None),
    "cspvit/imagenette": ("Imagenette, top-1", None, None),
    "cspvit/tiny_imagenet": ("Tiny ImageNet, top-1", None, None),
    "lratransformer/imdb": ("IMDB, accuracy", "lratransformer/imdb_attention", None),
    "simpletron/sst2": ("SST-2, accuracy", "simpletron/sst2_softmax", None),
    "cspmega/listops_small": ("small ListOps, accuracy", "mega/listops_small", None),
    "slicegraphormer/qm9_gap": (
        "QM9 gap, MAE in eV", "graphormer/qm9_gap", ("molecules", "SliceGraphormer, release"),
    ),
}  # fmt: skip
BASELINES = {name: baseline for name, (_, baseline, _) in PRETRAINED.items() if baseline}
BASELINES["cspvit/imagenette_scratch"] = "vit/imagenette"


def summary():
    """Yield a row per mixer: its cost and properties, and its speed relative to attention."""
    facts = ("cost in N tokens", "parameters", "causal", "depends on content", "paper")
    yield ("mixer", *facts, *(f"speed, {backend}" for backend in BACKENDS))
    measured = [
        {row["layer"]: row["vs_attention"] for row in read("epyc", f"layers_1024_{backend}")}
        for backend in BACKENDS
    ]
    for layer, facts in FACTS.items():
        name = NAMES.get(layer, f"`{layer}`")
        yield (name, *facts, *(f"{ratios[layer]}×" for ratios in measured))


def pretrained():
    """Yield a row per preset of `PRETRAINED`: parameters, scores and the training speedup."""
    yield ("preset", "task", "parameters", "score", "attention", "paper", "training speedup")
    ratios = step_ratios()
    over_seeds = {row[0].strip("`"): f"{row[1]} %" for row in list(seeds())[1:]}
    papers = {name.strip("`"): paper for name, _, _, _, paper, *_ in presets()}
    for name, (task, baseline, case) in PRETRAINED.items():
        parameters, score = best_score(name)
        yield (
            f"`{name}`",
            task,
            f"{int(parameters.replace(',', '')) / 1e6:.2f} M",
            over_seeds.get(name, score),
            over_seeds.get(baseline, best_score(baseline)[1]) if baseline else "–",
            papers[name].split(",")[0].split(" ", 1)[-1],
            " / ".join(ratios[case]) if case else "–",
        )


def step_ratios():
    """Map (case, model) to the speed of training relative to attention, on each backend."""
    measured = (read("epyc", f"models_{backend}") for backend in BACKENDS)
    return {
        (rows[0]["case"], rows[0]["model"]): [f"{row['vs_attention']}×" for row in rows]
        for rows in zip(*measured, strict=True)
    }


def explorer():
    """Yield a row per trained preset, with one number in a cell: the site sorts and plots them."""
    yield ("preset", "data", "metric", "score", "parameters", *(f"step, {b}" for b in BACKENDS))
    ratios = step_ratios()
    found = {}
    for name, (_, baseline, case) in PRETRAINED.items():
        if case and baseline:  # one baseline, or the ratios would not be comparable
            found |= {name: ratios[case], baseline: ["1.0×"] * len(BACKENDS)}
    for name, parameters, data, measured, *_ in list(presets())[1:]:
        metric, score = measured.split(",")[0].split(" ", 1)
        times = found.get(name.strip("`"), ["–"] * len(BACKENDS))
        link = f"[{name}](../../zoo/{name.strip('`')}/README.md)"
        yield (link, data, metric, score, parameters, *times)


def best_score(name):
    """Return the number of parameters in a card, as text, and its first score."""
    _, parameters, _, measured, *_ = card_row(ROOT / "zoo" / name / "README.md")
    return parameters, measured.split(",")[0].split(" ", 1)[1]


def presets():
    """Yield a row per card: parameters, scores beside the paper's, and date and seed."""
    yield ("preset", "parameters", "data", "measured", "nearest in a paper", "trained", "card")
    yield from map(card_row, sorted((ROOT / "zoo").glob("*/*/README.md")))


def card_row(path):
    """Return the row of a card in `presets`."""
    name, card = "/".join(path.parent.parts[-2:]), path.read_text(encoding="utf-8")
    parameters = re.search(r"([\d,]+) parameters", card)[1]
    scores = re.findall(r"^\| (\w+)/\w+/(\w+) \| (.*) \| (.*) \|$", card, re.MULTILINE)
    measured = ", ".join(f"{kind} {score}" for _, kind, score, _ in scores)
    papers = ", ".join(f"{kind} {paper}" for _, kind, _, paper in scores if paper != "–")
    day, seed = re.search(r"^\* Trained (\S+) .*, (seed \d+)", card, re.MULTILINE).groups()
    shown = f"`{name}`", parameters, scores[0][0], measured, papers or "–"
    return *shown, f"{day}, {seed}", f"[card]({name}/README.md)"


def family(classes):
    """Yield a row per trained preset of the classes: scores beside attention's and the paper's."""
    rows = {row[0].strip("`"): row for row in list(presets())[1:]}
    yield ("preset", "parameters", "score", "attention baseline", "paper", "card")
    for name, (shown, parameters, _, score, paper, *_) in rows.items():
        if name.split("/")[0] in classes:
            baseline = rows[BASELINES[name]][3] if name in BASELINES else "–"
            card = f"[card](../../zoo/{name}/README.md)"
            yield (shown, parameters, score, baseline, paper, card)


def ops():
    """Yield a row per operator and shape: two speedups, and the time relative to a copy."""
    measured = [read("xeon", f"ops_{backend}") for backend in BACKENDS]
    yield ("op", "shape", *BACKENDS)
    for rows in zip(*measured, strict=True):
        ratios = [
            f"{row['speedup']}× / {float(row['vs_attention']):.1f}× / {row['vs_copy']}"
            for row in rows
        ]
        yield (rows[0]["case"], rows[0]["shape"], *ratios)


def masked():
    """Yield a row per masked operator: two speedups, and the time relative to no mask."""
    yield ("op", "shape", *BACKENDS)
    for rows in zip(*(read("epyc", f"ops_masked_{name}") for name in BACKENDS), strict=True):
        ratios = [
            (row["speedup"], float(row["vs_attention"]), 1 / float(row["vs_unmasked"]))
            for row in rows
        ]
        cells = [f"{ours}× / {rival:.1f}× / {mask:.1f}" for ours, rival, mask in ratios]
        yield (rows[0]["case"], rows[0]["shape"], *cells)


def plain():
    """Yield a row per operator and model: time if freed memory is returned, relative to kept."""
    yield ("operator or model", *BACKENDS)
    for kind, column in (("ops", "ms"), ("models", "step_ms")):
        ways = [
            [_times(f"{kind}_{way}_{name}", column) for way in ("kept", "plain")]
            for name in BACKENDS
        ]
        for what in ways[0][1]:
            yield (what, *(f"{bare[what] / kept[what]:.2f}" for kept, bare in ways))


def _times(name, column):
    """Return milliseconds on the EPYC by case and model or shape."""
    rows = read("epyc", name)
    return {
        f"{row['case']}, {row.get('model') or row['shape']}": float(row[column]) for row in rows
    }


def layers():
    """Yield a row per layer and case: its speed relative to attention, on each backend."""
    yield ("layer", "batch × tokens", *BACKENDS)
    ratios = [by_layer_and_case(backend, "vs_attention") for backend in BACKENDS]
    for layer, case in sorted(ratios[0], key=lambda key: key[0]):
        if ratios[0][layer, case] and layer != "MultiHeadAttention":
            yield (f"`{layer}`", case, *(f"{measured[layer, case]}×" for measured in ratios))


def growth():
    """Yield a row per layer: the time per token at 65,536 tokens relative to 1,024 tokens."""
    yield ("layer", *BACKENDS)
    times = [by_layer_and_case(backend, "us_per_token") for backend in BACKENDS]
    for layer in sorted({layer for layer, case in times[0] if case == "1×65536"}):
        ratios = (float(each[layer, "1×65536"]) / float(each[layer, "64×1024"]) for each in times)
        yield (f"`{layer}`", *(f"{ratio:.2f}" for ratio in ratios))


def by_layer_and_case(backend, column):
    """Return one column of the measurement of layers on the Xeon."""
    return {
        (row["layer"], f"{row['batch']}×{row['tokens']}"): row[column]
        for row in read("xeon", f"layers_{backend}")
    }


def models():
    """Yield a row per case and model: multiply-adds, milliseconds, step speedup, first step."""
    measured = [read("epyc", f"models_{backend}") for backend in BACKENDS]
    columns = (f"{name}: prediction / step, ms (speed)" for name in BACKENDS)
    first = f"first step, s: {' / '.join(BACKENDS)}"
    yield ("case", "model", "parameters", "by multiply-adds", *columns, first)
    for rows in zip(*measured, strict=True):
        facts = (rows[0]["case"], rows[0]["model"], f"{int(rows[0]['parameters']):,}")
        times = ("{forward_ms} / {step_ms} ({vs_attention}×)".format(**row) for row in rows)
        first = " / ".join(row["first_step_s"] for row in rows)
        yield (*facts, f"{rows[0]['vs_attention_macs']}×", *times, first)


def paths():
    """Yield a row per fast path and model: the time of a step without it, relative to with it."""
    runs = (*BACKENDS, "avx2")
    found = [
        {(row["path"], row["case"]): in_range(row) for row in read("xeon", f"paths_{run}")}
        for run in runs
    ]
    yield ("path", "model", *BACKENDS, "torch, AVX2 only")
    for key in sorted(set().union(*found)):
        yield (*key, *(measured.get(key, "–") for measured in found))


def in_range(row):
    """Format the median of a ratio, the smallest and the largest."""
    return f"{row['ratio']} ({row['smallest']}–{row['largest']})"


def peers():
    """One row per backend and model: first step, step, and memory to load, predict and train."""
    memory = (f"{what}, MB" for what in ("load", "predict", "step"))
    yield ("backend", "case", "model", "parameters", "first step, s", "step, ms", *memory)
    columns = ("first_step_s", "step_ms", "load_mb", "forward_mb", "step_mb")
    for backend in BACKENDS:
        for row in read("epyc", f"peers_{backend}"):
            facts = (backend, row["case"], row["model"], f"{int(row['parameters']):,}")
            if backend == "tensorflow":  # which keeps the memory that it frees
                row = {**row, "forward_mb": "–", "step_mb": "–"}
            yield (*facts, *map(row.get, columns))


def bundles():
    """Yield a row per permutation: bundles that a TPU issues for Pallas and for XLA."""
    found = {
        (row["case"], row["dtype"], row["way"]): int(row["bundles"])
        for row in read("tpu", "bundles_v5e")
    }
    dtypes = list(dict.fromkeys(dtype for _, dtype, _ in found))
    columns = ("Pallas / XLA", "with a mask")
    yield ("permutation", *(f"{dtype}: {name}" for dtype in dtypes for name in columns))
    for case in dict.fromkeys(case for case, *_ in found):
        cells = [case]
        for dtype in dtypes:
            kernel, xla = (found[case, dtype, f"tpu_{way}"] for way in ("pallas", "xla"))
            masked = found[case, dtype, "tpu_pallas_masked"]
            cells += [f"{kernel:,} / {xla:,}", f"{masked:,} ({masked / kernel:.2f}×)"]
        yield tuple(cells)


def gpu_layers():
    """Yield a row per layer: milliseconds on a GPU, and the speed relative to attention."""
    rows = read("gpu", "layers_torch_bfloat16")
    cases = list(dict.fromkeys(f"{row['batch']}×{row['tokens']}" for row in rows))
    found = {(row["layer"], f"{row['batch']}×{row['tokens']}"): row for row in rows}
    yield ("layer", *cases)
    for layer in dict.fromkeys(row["layer"] for row in rows):
        times = (found[layer, case] for case in cases)
        yield (f"`{layer}`", *(f"{row['ms']} ms ({row['vs_attention']}×)" for row in times))


def gpu_ops():
    """Yield a row per operator and shape on a GPU, on PyTorch."""
    columns = ("forward_ms", "ms", "vs_copy", "vs_attention", "vs_sort")
    ratios = ("time vs. copies", "speed vs. attention", "speed vs. sort")
    yield ("op", "shape", "forward, ms", "forward + backward, ms", *ratios)
    for row in read("gpu", "ops_torch_bfloat16"):
        yield (row["case"].removesuffix(", huge"), row["shape"], *(row[c] or "–" for c in columns))


# Model -> measurements of one argument of its mixer.
ABLATIONS = {
    "CSPViT": (
        "epyc/sweep_group_size", "epyc/sweep_shift", "xeon/sweep_shift",
        "epyc/sweep_inner_dim",
    ),
    "SliceViT": ("epyc/sweep_order",),
    "ButterflyViT": ("epyc/sweep_block_size", "epyc/sweep_random_order"),
    "ViT": ("epyc/sweep_attention",),
}  # fmt: skip


def ablations():
    """Yield a row per value of an argument: accuracy of a small model on CIFAR-10's test images."""
    yield ("model", "argument", "value", "parameters", "top-1, %", "top-5, %", "seeds")
    for model, files in ABLATIONS.items():
        rows = [row for file in files for row in read(*file.split("/"))]
        for key in dict.fromkeys(next(iter(row)) for row in rows):
            values = dict.fromkeys(row[key] for row in rows if key in row)
            for value in sorted(values, key=lambda value: value.isdigit() and int(value)):
                own = [row for row in rows if row.get(key) == value]
                scores = [
                    [100 * float(row[f"cifar10/test/{score}"]) for row in own]
                    for score in ("top1", "top5")
                ]
                cells = (in_words(mean(x), stdev(x) if len(x) > 1 else 0, len(x)) for x in scores)
                argument, parameters = key.split(".")[-1], int(own[0]["parameters"])
                shown = (f"`{model}`", f"`{argument}`", f"`{value}`", f"{parameters:,}")
                yield (*shown, *cells, len(own))


def blocks():
    """Yield a row per block size of `ButterflyViT`: accuracy, and time and memory of a step."""
    scores = {
        row["model.block_size"]: 100 * float(row["cifar10/test/top1"])
        for row in read("epyc", "sweep_block_size")
    }
    measured = [read("epyc", f"blocks_{backend}") for backend in BACKENDS]
    times = (f"{name}: step, ms (speed)" for name in BACKENDS)
    yield ("tokens per block", "top-1, %", *times, "jax: step, MB", "torch: step, MB")
    for rows in zip(*measured, strict=True):
        size = rows[0]["model"].split()[0]
        steps = ("{step_ms} ({vs_attention}×)".format(**row) for row in rows)
        yield (size, f"{scores[size]:.2f}", *steps, rows[0]["step_mb"], rows[2]["step_mb"])


def seeds():
    """Yield a row per recipe that was trained several times: mean and spread of its scores."""
    scores = {"top-1, %": "cifar10/test/top1", "top-5, %": "cifar10/test/top5"}
    found = {}
    for row in read("epyc", "seeds_cifar10_small"):
        found.setdefault(row["preset"], []).append(row)
    yield ("recipe", *scores, "seeds")
    for name, rows in found.items():
        values = ([100 * float(row[score]) for row in rows] for score in scores.values())
        cells = (in_words(mean(x), stdev(x) if len(x) > 1 else 0, len(x)) for x in values)
        yield (f"`{name}`", *cells, len(rows))


def molecules():
    """Yield a row per small set of molecules: mean absolute errors, mean and spread over seeds."""
    named = {
        "SliceGraphormer": "`SliceGraphormer`",
        "release": 'with `mode="release"`',
        "Graphormer": "`Graphormer`",
    }
    yield ("set", "unit", "mean of training targets", *named.values(), "seeds")
    for name in ("esol", "freesolv", "lipophilicity"):
        rows = read("epyc", f"sweep_{name}") + read("epyc", f"sweep_{name}_release")
        errors, ((_, _, unit),) = {mixer: [] for mixer in named}, TARGETS[name].values()
        for row in rows:
            mixer = row.get("model.class_name") or row["model.mixer.mode"]
            errors[mixer].append(float(row[f"{name}/test/mae"]))
        cells = [f"{mean(found):.2f} ± {stdev(found):.2f}" for found in errors.values()]
        guess = float(rows[0][f"{name}/test/mae_of_mean"])
        yield (f"`{name}`", unit, f"{guess:.2f}", *cells, len(rows) // len(named))


def streaming():
    """Yield a row per causal mixer: bits per byte, and speed and state while it generates."""
    names = {
        "linear_attention": "`LinearAttention`",
        "simple_attention": "`SimpleAttention`",
        "causal_csp": "`CausalCSP`",
        "damped_ema": "`DampedEMA`",
        "attention": "attention with a cache of keys and values",
        "attention, recomputed": "attention, recomputed for each byte",
    }
    rows = {(row["mixer"], int(row["context"])): row for row in read("epyc", "streaming")}
    contexts = sorted({context for _, context in rows})
    head = (f"bytes per second after {context:,} bytes" for context in contexts)
    yield ("mixer", "bits per byte", *head, f"state after {contexts[-1]:,} bytes, kB")
    for mixer, name in names.items():
        found = [rows.get((mixer, context), {}) for context in contexts]
        speeds = [float(row.get("bytes_per_second", 0)) for row in found]
        cells = [f"{n:,.0f}" if n >= 100 else f"{n:.1f}" if n else "–" for n in speeds]
        state = int(found[-1].get("state_bytes", 0))
        yield (name, found[0]["bits_per_byte"], *cells, f"{state / 1000:,.0f}" if state else "–")


def lra():
    """Yield a row per model: accuracy on each small task of the Arena, over the seeds."""
    found, tasks = arena_results()
    yield ("model", *tasks)
    for model in MODELS:
        cells = [found.get((task, model)) for task in tasks]
        if any(cells):
            yield (f"`{model}`", *(in_words(*cell) if cell else "–" for cell in cells))


def arena_results():
    """Return means and spreads of the small tasks by task and model, and the tasks.

    Path-X has no small task. The small Pathfinder leaves five of six encoders at chance.
    """
    tasks = [task for task in TASKS if task not in ("pathx", "pathfinder")]
    files = sorted((ROOT / "benchmarks").glob("*/lra_small.csv"))
    rows = [row for file in files for row in read_results(file) if not row["changes"]]
    chosen = [row for row in rows if row["scale"] == "small" and row["task"] in tasks]
    return means(chosen), tasks


def lengths():
    """Yield a row per mixer: training and prediction steps per second, by length."""
    found, tokens = by_mixer_and_length("torch")
    yield ("mixer", *(f"{number} tokens" for number in tokens))
    for mixer in dict.fromkeys(mixer for mixer, _ in found):
        each = [found[mixer, number] for number in tokens]
        yield (
            f"`{mixer}`",
            *(f"{row['train_steps_per_s']} / {row['infer_steps_per_s']}" for row in each),
        )


def memory():
    """Yield a row per mixer: megabytes of a training step, shortest and longest length."""
    backends = ("jax", "torch")  # TensorFlow keeps the memory that it frees
    yield ("mixer", *(f"{backend}: 1024 / 4096 tokens" for backend in backends))
    measured = [by_mixer_and_length(backend)[0] for backend in backends]
    for mixer in dict.fromkeys(mixer for mixer, _ in measured[0]):
        cells = ([found[mixer, n]["peak_mb"] for n in ("1024", "4096")] for found in measured)
        yield (f"`{mixer}`", *map(" / ".join, cells))


def by_mixer_and_length(backend):
    """Map (mixer, tokens) to the row of `permix bench lra`. Also return the numbers of tokens."""
    rows = read("epyc", f"lra_{backend}")
    found = {(row["mixer"], row["tokens"]): row for row in rows}
    return found, list(dict.fromkeys(row["tokens"] for row in rows))


def exports():
    """Yield a row per model: whether each export predicts as the model does."""
    return by_way(lambda name: "/" not in name, lambda row: row["found"])


def exported():
    """Yield a row per preset: the prediction times of the model and of each export."""

    def times(row):
        if row["found"] != "works":
            return row["found"]
        own, exported = float(row["own_ms"]), float(row["exported_ms"])
        return f"{own:.0f} / {exported:.0f} ({own / exported:.2g}×)"

    return by_way(lambda name: "/" in name, times)


def by_way(chosen, cell):
    """Yield rows with a column per backend and export format."""
    rows = [row for row in read("epyc", "exports") if chosen(row["model"])]
    ways = sorted({(row["backend"], row["way"]) for row in rows})
    found = {(row["backend"], row["way"], row["model"]): cell(row) for row in rows}
    yield ("model", *(f"{backend}: {way}" for backend, way in ways))
    for name in sorted({row["model"] for row in rows}):
        yield (f"`{name}`", *(found.get((*way, name), "–") for way in ways))


def published():
    """Format the papers' tables except the Arena's: published, ours, command, reason."""
    data = tomllib.loads((ROOT / "tools" / "published.toml").read_text(encoding="utf-8"))
    parts = []
    for table in data["tables"]:
        rows = [(*table["columns"], "ours", "command", "reason for the gap")]
        rows += [
            (what, paper, ours(preset), f"`{command}`" if command else "–", data["reasons"][reason])
            for what, paper, preset, command, reason in table["rows"]
        ]
        parts.append(f"### {table['title']}\n\n{markdown(rows)}\n")
    return "\n".join(parts)


def ours(preset):
    """Return the top-1 (and top-5) score or accuracy of a preset, and its name."""
    if not preset:
        return "–"
    file = ROOT / "weights" / preset / "metadata.json"
    scores = json.loads(file.read_text(encoding="utf-8"))["scores"].values()
    return f"{' / '.join(f'{100 * score:.2f}' for score in scores)} (`{preset}`)"


def efficiency():
    """Yield table 3 of Sliceformer with steps per second of `permix bench lra`."""
    data = tomllib.loads((ROOT / "tools" / "published.toml").read_text(encoding="utf-8"))
    found, tokens = by_mixer_and_length("torch")
    head = ("training, steps/s", "ours", "inference, steps/s", "ours", "memory, GB")
    yield ("model", *head, "reason for the gap")
    for model, (mixer, train, infer, memory) in data["efficiency"].items():
        rows = [found[mixer, number] for number in tokens] if mixer else []
        steps, answers = (
            " / ".join(row[f"{kind}_steps_per_s"] for row in rows) or "–"
            for kind in ("train", "infer")
        )
        reason = "we measured on two CPU cores" if mixer else "not in the package"
        yield (model, train, steps, infer, answers, memory, reason)


def published_lra():
    """Format the Arena's tables in the papers: published, ours at small scale, command."""
    measured, _ = arena_results()
    # The small retrieval is another task.
    measured = {key: found for key, found in measured.items() if key[0] != "retrieval"}
    names = {row: model for model, row in ROWS.items()}
    parts = []
    for paper in (CSP_PAPER, SLICE_PAPER, TRON_PAPER, DM_PAPER):
        rows = [("model", *TASKS, "command", "reason for the gap")]
        for name, scores in PUBLISHED[paper].items():
            model = names.get((paper, name))
            cells = [
                f"{f'{score:.2f}' if score else '–'}{f' ({found[0]:.1f})' if found else ''}"
                for score, found in (
                    (scores.get(task), measured.get((task, model))) for task in TASKS
                )
            ]
            tasks = "listops text retrieval" if paper == TRON_PAPER else "all"
            tasks += " pathx" if "pathx" in scores else ""
            command = f"`permix lra {tasks} --model {model} --scale paper`" if model else "–"
            small = any(measured.get((task, model)) for task in TASKS)
            reason = "no recipe" if not model else "small scale only" if small else "not run yet"
            rows.append((name, *cells, command, reason))
        parts.append(f"### {paper}\n\n{markdown(rows)}\n")
    return "\n".join(parts)


def read(machine, name):
    """Return the rows of a file of measurements."""
    with open(ROOT / "benchmarks" / machine / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def markdown(rows):
    """Format rows as a Markdown table; the first row is the header."""
    head, *body = ([str(cell) for cell in row] for row in rows)
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fill(table, match):
    """Return the text in place of a table."""
    made = table()
    return f"{match[1]}{made if isinstance(made, str) else markdown(made)}\n{match[2]}"


def filled(pages):
    """Return the texts of the pages with updated tables."""
    measured = (ops, masked, plain, paths, layers, growth, models, peers, lengths, memory)
    measured += (ablations, blocks, seeds, molecules, bundles, streaming)
    measured += (gpu_layers, gpu_ops, published)
    tables = (summary, pretrained, presets, explorer, efficiency, *measured, published_lra, lra)
    tables += (exports, exported)
    named = {table.__name__: table for table in tables}
    named |= {f"family_{name}": partial(family, classes) for name, classes in FAMILIES.items()}
    for name, table in named.items():
        count = 0
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        for path, text in pages.items():
            pages[path], found = pattern.subn(partial(fill, table), text)
            count += found
        if count != 1:
            raise ValueError(f"The table `{name}` must be on one page. Received: {count}")
    return pages


if __name__ == "__main__":
    old = {path: path.read_text(encoding="utf-8") for path in PAGES}
    new = filled(dict(old))
    stale = [str(path.relative_to(ROOT)) for path in PAGES if new[path] != old[path]]
    if "--check" in sys.argv[1:]:
        sys.exit(f"out of date: {', '.join(stale)}" if stale else 0)
    for path in PAGES:
        path.write_text(new[path], encoding="utf-8")
