"""Time the Triton kernels with several program sizes on a GPU.

    python tools/tune_triton.py                 # a table: milliseconds and GB/s of each variant
    TRITON_INTERPRET=1 python tools/tune_triton.py --dry-run    # every variant once, on a CPU

The fastest sizes belong in `windows.py` and in `tile_for` of `sort.py`, in
`ops/backend/triton`. Every variant must return the result of the first.
"""

# ruff: noqa: E402, I001

import argparse
import os
import sys
from functools import partial

os.environ["KERAS_BACKEND"] = "torch"

import torch

from keras_permix.ops.backend.torch.triton.functions import run
from keras_permix.ops.backend.triton import pairs, shift, sort
from keras_permix.ops.backend.triton.windows import ALL, Reads, Window, _arcs
from keras_permix.ops.shift_steps import ShiftSchedule

# (batch, tokens, channels) -> (tokens, channels, rows held, warps) of a program that shifts
WINDOWS = {
    (8192, 196, 384): [(256, 32, 256, 8), (256, 32, 256, 16), (256, 16, 256, 8)],
    (2048, 1024, 256): [
        (1024, 16, 1024, 16), (1024, 8, 1024, 16), (1024, 16, 1024, 32), (128, 32, 256, 8),
        (128, 32, 256, 16), (256, 32, 512, 16), (64, 32, 0, 4),
    ],
    (512, 4096, 256): [
        (256, 16, 512, 16), (256, 16, 512, 8), (4096, 4, 4096, 16), (512, 32, 1024, 16),
    ],
}  # fmt: skip
# (batch, tokens, channels) -> (length, groups, channels, warps) of a program that sorts
TILES = {
    (8192, 196, 384): [(256, 1, 32, 8), (256, 1, 32, 16), (256, 1, 16, 8)],
    (2048, 1024, 256): [(1024, 1, 16, 16), (1024, 1, 8, 16), (1024, 1, 8, 8), (1024, 1, 4, 8)],
    (512, 4096, 256): [(4096, 1, 4, 16), (4096, 1, 8, 16), (4096, 1, 2, 16)],
}
DRY = {
    "windows": {(2, 130, 20): [(256, 32, 256, 8), (256, 16, 256, 8), (64, 32, 0, 4)]},
    "tiles": {(2, 13, 20): [(16, 1, 32, 1), (16, 1, 16, 1), (16, 2, 8, 1)]},
}


class Sized(Window):
    """Hold a window with a given number of warps."""

    warps = 0


def shifts(x, size):
    """Yield the name and call of the kernels that shift, with a window of this size."""
    tokens, channels, held, warps = size
    back = tuple(ShiftSchedule("linear", x.shape[2]).at(x.shape[1]))
    for name, reads in (("back", back), ("forward", tuple(-s % x.shape[1] for s in back))):
        starts, spread = _arcs(reads, x.shape[1], channels) if held > tokens else ((), 0)
        window = Sized(tokens, channels, held, spread, starts)
        window.warps = warps
        tables = (torch.tensor(t, dtype=torch.int32, device=x.device) for t in (reads, starts))
        reads = Reads(window, *tables)
        yield f"shift {name}", partial(shift.shift, run, x, reads)
        if name == "forward":
            order = partial(pairs.order_pairs, run, x, reads, aligned=False, with_residuals=True)
            yield "pairs", lambda order=order: order()[0]
        else:
            words, dtype = pairs.swaps_of(x.shape)
            swaps = torch.full(words, 0x55555555, dtype=getattr(torch, dtype), device=x.device)
            yield "pairs back", partial(pairs.undo_pairs, run, x, reads, swaps)


def sorts(x, size):
    """Yield the name and call of the kernels that sort all tokens, with a tile of this size."""
    tile, tokens = sort.Tile(*size), x.shape[1]
    shape, dtype = sort.positions_of(x.shape, tokens)
    order = torch.randperm(tokens, generator=torch.Generator().manual_seed(0))
    order = order.to(x.device, getattr(torch, dtype))[None, :, None].expand(shape).contiguous()

    def launch(kernel, arrays, results, **flags):
        program = sort.sorting_program(kernel, x.shape, tokens, None, tile, **flags)
        return run(program, {**arrays, **ALL._asdict()}, {"out": (shape, x.dtype), **results})[0]

    values = dict(x=x, descending=None, reference=None)
    found = {"positions": (shape, dtype)}
    sorting, back = sort.sort_groups_kernel, sort.put_back_kernel
    yield "sort", lambda: launch(sorting, {**values, "positions": None}, {}, RESIDUALS=False)
    yield "sort with positions", lambda: launch(sorting, values, found, RESIDUALS=True)
    yield "sort back", lambda: launch(back, {"grad": x, "positions": order}, {})


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--dry-run", action="store_true", help="only compare results, on a CPU")
    asked = parser.parse_args(arguments)
    device = "cpu" if asked.dry_run else "cuda"
    cases = (DRY["windows"], DRY["tiles"]) if asked.dry_run else (WINDOWS, TILES)
    for variants, sizes_of in zip((shifts, sorts), cases, strict=True):
        for shape, sizes in sizes_of.items():
            generator = torch.Generator(device).manual_seed(0)
            x = torch.randn(shape, generator=generator, device=device)
            x, first = x.to(getattr(torch, asked.dtype)), {}
            for size in sizes:
                for name, call in variants(x, size):
                    out = call()
                    if not torch.equal(first.setdefault(name, out.clone()), out):
                        raise ValueError(f"{name} {size} of {shape} differs from {sizes[0]}")
                    print(f"{name:12} {shape!s:18} {size!s:22} {time_of(call, x)}", flush=True)
    return 0


def time_of(call, x):
    """Return the milliseconds of a call, and GB/s of `x` read and written."""
    if not x.is_cuda:
        return "equal"
    from triton.testing import do_bench

    milliseconds = do_bench(call, warmup=5, rep=20, return_mode="median")
    return f"{milliseconds:8.3f} ms {2 * x.nbytes / milliseconds / 1e6:6.0f} GB/s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
