"""Print the bytes that compiled kernels move, relative to the minimum. No device is required.

    KERAS_BACKEND=torch python tools/kernel_bytes.py    # Triton, for an H100
    KERAS_BACKEND=jax python tools/kernel_bytes.py      # Pallas, for a TPU v5e

At the minimum, every value and every word of residuals is read and written once. On a GPU, the
loads and stores in the machine code are counted for all threads. On a TPU, the operands and results
of all custom calls and of the operations between them are counted. The ideal time is that of the
minimum at full bandwidth.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHAPE = SAMPLES, TOKENS, CHANNELS = 128, 256, 384
VALUES = SAMPLES * TOKENS * CHANNELS
ITEMS = {"bfloat16": 2, "float32": 4}
BANDWIDTH = {"torch": {"H100": 3350, "H200": 4800}, "jax": {"v5e": 819, "v6e": 1640}}  # GB/s
# function -> tokens per group, and bytes of residuals per value
KERNELS = {
    "shift": (1, 0),
    "sort_pairs": (2, 1 / 16),
    "unsort_pairs": (2, 1 / 16),
    "sort": (TOKENS, 0),
    "sort_with_positions": (TOKENS, {"torch": 1, "jax": 2}),
    "unsort": (TOKENS, {"torch": 1, "jax": 2}),
}


def triton_bytes(name, dtype):
    import torch
    import triton
    from triton.backends.compiler import GPUTarget

    from keras_permix.ops.backend.plan import Plan
    from keras_permix.ops.backend.torch.triton.functions import _permute, _undo
    from keras_permix.ops.backend.torch.triton.tables import Tables
    from tests.accelerators.triton_ahead import launches, source

    x, size = torch.zeros(SHAPE, dtype=getattr(torch, dtype)), KERNELS[name][0]
    steps = tuple(range(CHANNELS)) if size <= 2 else None
    tables, plan = (*Tables(), None, None), Plan(steps, size)
    with_residuals = name in ("sort_pairs", "sort_with_positions")
    call = lambda: _permute(x, *tables, *plan, with_residuals)  # noqa: E731
    if name.startswith("unsort"):
        words = (SAMPLES, TOKENS // 64, CHANNELS) if size == 2 else SHAPE
        residuals = torch.zeros(words, dtype=torch.int32 if size == 2 else torch.uint8)
        call = lambda: _undo(x, residuals, *tables, *plan)  # noqa: E731
    [(kernel, (arguments, options))] = launches(call).items()
    target = GPUTarget("cuda", 90, 32)
    made = triton.compile(source(kernel, arguments), target=target, options=options)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        command = [tool, "--dump-sass", file.name]
        text = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    sizes = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
    moved = 0
    for kind in re.findall(r"\b(?:LDG|STG)\.E((?:\.\w+)*)", text):
        moved += next((sizes[part] for part in kind.split(".") if part in sizes), 4)
    rows = arguments["TOKENS"] if "TOKENS" in arguments else TOKENS * arguments["GROUPS"]
    programs = -(-TOKENS // rows) * -(-CHANNELS // arguments["CHANNELS"]) * SAMPLES
    return moved * 32 * options["num_warps"] * programs


def pallas_bytes(name, dtype):
    import tpu_ahead_of_time

    chip, size = tpu_ahead_of_time.chip("v5e:2x2"), KERNELS[name][0]
    compiled = tpu_ahead_of_time.compile_permutation("tpu_pallas", name, SHAPE, dtype, size, chip)
    memory = compiled.memory_analysis()
    kept = memory.argument_size_in_bytes + memory.output_size_in_bytes
    return kept + 2 * memory.temp_size_in_bytes


def main():
    backend = os.environ.get("KERAS_BACKEND")
    if backend not in BANDWIDTH:
        sys.exit(f"KERAS_BACKEND must be 'torch' or 'jax'. Received: {backend!r}")
    count, chips = {"torch": triton_bytes, "jax": pallas_bytes}[backend], BANDWIDTH[backend]
    print(f"| kernel | dtype | moved / least | {' | '.join(f'ideal µs, {c}' for c in chips)} |")
    print("| --- | --- | ---: |" + " ---: |" * len(chips))
    for name, (_, residuals) in KERNELS.items():
        for dtype, item in ITEMS.items():
            residual_bytes = residuals[backend] if isinstance(residuals, dict) else residuals
            least = VALUES * (2 * item + residual_bytes)
            times = " | ".join(f"{least / 1e3 / speed:.0f}" for speed in chips.values())
            ratio = count(name, dtype) / least
            print(f"| `{name}` | {dtype} | {ratio:.2f} | {times} |", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
