"""Time training steps with and without each fast path of CPUs, to decide which paths to keep.

    KERAS_BACKEND=jax python -m benchmarks.fast_paths --out benchmarks/xeon/paths_jax.csv

Paths are switched off one at a time. A case is a model of two blocks, one at 16,384 tokens, with a
batch of random inputs. Its training steps with and without the path alternate. `ratio` is the time
without the path divided by the time with it: the median over the rounds, with the smallest and the
largest.
"""

import argparse
import contextlib
import csv
import ctypes
import datetime
import os
import statistics
import time
from dataclasses import replace
from unittest.mock import patch

import keras

from keras_permix.bench.models import MEGA, SMALL, TEXT, make
from keras_permix.ops.backend import running
from keras_permix.ops.reference import network
from keras_permix.utils.machine import keep_freed_memory, machine

IMAGES = {**SMALL, "num_layers": 2}
TEXTS = {**TEXT, "num_layers": 2, "max_sequence_length": 1024}
CASES = {
    "CSPViT": ("CSPViT", IMAGES, 32),
    "SliceViT": ("SliceViT", IMAGES, 32),
    "SliceViT, 1024 tokens": ("SliceViT", {**IMAGES, "patch_size": 1}, 4),
    "pairs, texts": ("LRATransformer", {**TEXTS, "mixer": {"name": "csp", "group_size": 2}}, 2),
    "CSP, texts": ("LRATransformer", {**TEXTS, "mixer": {"name": "csp", "group_size": None}}, 2),
    "CSP, 4096 tokens": (
        "LRATransformer",
        {**TEXTS, "max_sequence_length": 4096, "mixer": {"name": "csp", "group_size": None}},
        1,
    ),
    **{
        f"{name}, 16384 tokens": (
            "LRATransformer",
            {**TEXTS, "num_layers": 1, "max_sequence_length": 16384, "mixer": mixer},
            1,
        )
        for name, mixer in {
            "CSP": {"name": "csp", "group_size": None}, "SliceSort": "slice_sort",
        }.items()
    },
    "max exchange": ("LRATransformer", {**TEXTS, "mixer": "max_exchange"}, 2),
    "Sinkhorn": (
        "LRATransformer", {**TEXTS, "max_sequence_length": 256, "mixer": "sinkhorn_csp"}, 2,
    ),
    "CSPMEGA": ("CSPMEGA", {**MEGA, "num_layers": 2, "max_sequence_length": 1024}, 2),
}  # fmt: skip
VITS = ("CSPViT", "SliceViT")
SORTS = ("SliceViT", "SliceViT, 1024 tokens", "CSP, texts", "CSP, 4096 tokens")
LONG = ("CSP, 4096 tokens", "CSP, 16384 tokens", "SliceSort, 16384 tokens")
MASKED = ("pairs, texts", "CSP, texts")
STEPS, SECONDS = 4, 0.3  # of each round, at least


def table():
    return running.module("implementations")


def without(*names):
    """Return a context without the implementations of these names, "op" or "op:name"."""
    kept = [r for r in table().IMPLEMENTATIONS if not {r.op, f"{r.op}:{r.name}"} & {*names}]
    return patch.object(table(), "IMPLEMENTATIONS", kept)


def instead(file, **functions):
    """Return a context in which functions of a file of the backend are replaced."""
    return patch.multiple(running.module(file), **functions)


@contextlib.contextmanager
def freed_memory_returned():
    """Let glibc return large freed blocks to the system, as it does by default."""
    libc = ctypes.CDLL(None)
    for option, value in ((-4, 65536), (-3, 32 << 20), (-1, 64 << 20)):
        libc.mallopt(option, value)
    yield
    keep_freed_memory()


def jax_paths():
    from jax import lax, vmap

    return {
        "permutations": (lambda: without("csp", "slice_sort"), ("CSPViT", *SORTS, *MASKED)),
        "sorting network": (lambda: patch.object(
            network, "sort", lambda runs, _: lax.sort(runs, dimension=1, is_stable=False)
        ), SORTS),
        "network by blocks": (lambda: instead("groups", alone_on_cpu=lambda: False), LONG),
        "one sample at a time": (
            lambda: instead(
                "groups", alone_on_cpu=lambda: False, each=lambda f, *arrays: vmap(f)(*arrays)
            ), SORTS,
        ),
        "gathers apart": (lambda: instead("shift", apart=lambda f, x: f(x)), ("CSPViT",)),
        "dense as one product": (lambda: without("dense"), (*VITS, "CSP, texts")),
        "EMA by chunks": (lambda: without("damped_ema:chunked"), ("CSPMEGA",)),
        "max exchange": (lambda: without("max_exchange"), ("max exchange",)),
        "Sinkhorn in a loop": (lambda: without("sinkhorn"), ("Sinkhorn",)),
    }  # fmt: skip


def tensorflow_paths():
    import tensorflow as tf

    def vectorized(function, x, other, dtypes=None, *, on_cpu):
        tensors = (x,) if other is None else (x, other)
        return tf.vectorized_map(lambda sample: function(*sample), tensors)

    sort = network.sort
    return {
        "permutations": (lambda: without("csp", "slice_sort"), ("CSPViT", *SORTS, *MASKED)),
        "sorting network": (lambda: patch.object(
            network, "sort", lambda runs, _: keras.ops.sort(runs, axis=1)
        ), SORTS),
        "network by blocks": (
            lambda: patch.object(network, "sort", lambda runs, _: sort(runs, False)), LONG,
        ),
        "one sample at a time": (lambda: instead("groups", _each=vectorized), SORTS),
        "EMA by chunks": (lambda: without("damped_ema:chunked"), ("CSPMEGA",)),
        "max exchange": (lambda: without("max_exchange"), ("max exchange",)),
    }  # fmt: skip


def torch_paths():
    shift = running.module("shift")

    return {
        "permutations": (lambda: without("csp", "slice_sort"), ("CSPViT", *SORTS, *MASKED)),
        "NumPy's sort": (lambda: without("csp:numpy", "slice_sort:numpy"), SORTS),
        "tables kept": (lambda: patch.object(
            shift.TABLES, "get", lambda make, *arguments: make(*arguments)
        ), VITS[:1] + MASKED),
        "pairs as bits": (lambda: instead("pairs", compiling=lambda: True), ("CSPViT", MASKED[0])),
        "masks by NumPy": (lambda: instead("packing", at_hand=lambda x: False), MASKED),
        "EMA by chunks": (lambda: without("damped_ema:chunked"), ("CSPMEGA",)),
        "max exchange": (lambda: without("max_exchange"), ("max exchange",)),
    }  # fmt: skip


JITTED = (table().permute, table().max_exchange) if running.name() == "jax" else ()
TRACED = {function: function.__wrapped__ for function in JITTED}


@contextlib.contextmanager
def traced_anew():
    """Trace functions again, instead of reusing those compiled for another model."""
    if running.name() == "tensorflow":
        running.module("permute")._permutation.cache_clear()
    every = [
        replace(r, function=TRACED.get(r.function, r.function)) for r in table().IMPLEMENTATIONS
    ]
    with patch.object(table(), "IMPLEMENTATIONS", every):
        yield


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--paths", nargs="+", help="measure only these paths")
    arguments = parser.parse_args()
    keep_freed_memory()
    memory = {"freed memory kept": (freed_memory_returned, ("CSPViT", "CSP, texts", "CSPMEGA"))}
    paths = {**globals()[f"{running.name()}_paths"](), **memory}
    paths = {name: path for name, path in paths.items() if name in (arguments.paths or paths)}
    about = {
        "backend": running.name(),
        "backend_version": running.version(),
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "limit": os.environ.get("ONEDNN_MAX_CPU_ISA", ""),
    }
    with open(arguments.out, "w", newline="", encoding="utf-8") as file:
        write = csv.writer(file, lineterminator="\n")
        columns = ("case", "path", "with_ms", "without_ms", "ratio", "smallest", "largest")
        write.writerow((*columns, *about))
        for case in arguments.cases:
            for name, *measured in measure(case, paths, arguments.repeats):
                print(case, name, *measured, sep=" | ", flush=True)
                write.writerow((case, name, *measured, *about.values()))
                file.flush()


def measure(case, paths, repeats):
    """Yield one row of numbers for each path that affects the case."""
    ways = {name: way for name, (way, cases) in paths.items() if case in cases}
    ways = {"all": contextlib.nullcontext, **ways}
    name, sizes, batch = CASES[case]
    steps = {way: make(name, sizes, batch).step for way in ways}
    times = {way: [] for way in ways}
    for _ in range(repeats + 1):  # the first compiles, and does not count
        for way, context in ways.items():
            with traced_anew(), context():
                times[way].append(timed(steps[way]))
    times = {way: rounds[1:] for way, rounds in times.items()}
    for way in list(ways)[1:]:
        ratios = [slow / fast for slow, fast in zip(times[way], times["all"], strict=True)]
        both = (statistics.median(times[one]) for one in ("all", way))
        yield (
            way,
            *(f"{1e3 * one:.1f}" for one in both),
            *(f"{one:.2f}" for one in (statistics.median(ratios), min(ratios), max(ratios))),
        )


def timed(step):
    """Return the seconds of the fastest of some steps, after one that is not timed."""
    step()
    found, end = [], time.perf_counter() + SECONDS
    while len(found) < STEPS or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        found.append(time.perf_counter() - start)
    return min(found)


if __name__ == "__main__":
    main()
