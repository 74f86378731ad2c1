"""Compile every launch of the Triton kernels without a GPU, and report its resource usage.

    python -m tests.accelerators.triton_ahead

Prints one line of JSON per launch. The functions of the package are called, and each launch is
compiled with the same arguments instead of started.
"""

import json
import re
import subprocess
import tempfile
from math import prod
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from keras_permix.ops.backend.plan import Plan
from keras_permix.ops.backend.torch.triton.functions import run
from keras_permix.ops.backend.torch.triton.tables import (
    Tables,
    find_real,
    masked_moves,
    reads_with,
    tables_for,
)
from keras_permix.ops.backend.triton import pairs, shift, sort
from keras_permix.ops.backend.triton.windows import ALL

CAPABILITIES = (80, 90)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
GROUPS = {  # group sizes; float16 and bfloat16 are sorted as the same integers
    torch.float32: (4, 256, 1024, 16384),
    torch.float16: (16,),
    torch.bfloat16: (64, 4096),
}
STEPS = {  # name: (tokens, step between adjacent channels)
    "fetched": (16384, 1024),
    "circle of 64": (64, 1),
    "circle of 196": (196, 1),
    "circle of 4096": (4096, 1024),
    "arcs": (4096, 1),
}
MOST = dict(aligned=True, with_residuals=True)
MASKED = ", masked"
KERNELS = {
    shift.shift_kernel,
    pairs.order_pairs_kernel,
    pairs.undo_pairs_kernel,
    sort.sort_groups_kernel,
    sort.put_back_kernel,
}
POINTERS = {
    torch.float32: "*fp32",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.int32: "*i32",
    torch.int16: "*i16",
    torch.int8: "*i8",
    torch.uint8: "*u8",
}


def calls():
    """Yield name and call of every launch of the implementation, forward and backward."""
    flip = torch.zeros(48, dtype=torch.int8)
    for dtype in DTYPES:
        yield from shifts(dtype)
        for size in GROUPS[dtype]:
            x = torch.zeros(2, 2 * size, 48, dtype=dtype)
            shape, dtype_of_positions = sort.positions_of(x.shape, size)
            positions = torch.zeros(shape, dtype=getattr(torch, dtype_of_positions))
            real = find_real(torch.ones(x.shape[:2]))
            for mask, given in (("", ()), (MASKED, (real,))):
                yield (
                    f"sort of {size}{mask}",
                    lambda x=x, n=size, g=given: sort.sort_groups(run, x, n, *g, **MOST),
                )
                yield (
                    f"sort of {size}, descending, values only{mask}",
                    lambda x=x, n=size, g=given: sort.sort_groups(run, x, n, *g, descending=flip),
                )
                yield (
                    f"put_back of {size}{mask}",
                    lambda x=x, p=positions, n=size, g=given: sort.put_back(run, x, p, n, *g),
                )


def shifts(dtype):
    """Yield name and call of shifts and pairs, for every kind of window."""
    for name, (tokens, step) in STEPS.items():
        x = torch.zeros(2, tokens, 64, dtype=dtype)
        words = torch.zeros(pairs.swaps_of(x.shape)[0], dtype=torch.int32)
        steps = tuple(step * channel for channel in range(64))
        plan = Plan(steps, group_size=1).at(tokens)
        tables = [tables_for(x, plan, back) for back in (False, True)]
        yield from with_tables(name, x, words, plan, tables, ALL)
        if name != "arcs":  # masked calls use no arcs
            real = find_real(torch.ones(x.shape[:2]))
            moves = masked_moves(x, plan, real)
            yield from with_tables(name + MASKED, x, words, plan, 2 * [Tables(moves)], real)


def with_tables(name, x, words, plan, tables, real):
    ways = zip(tables, (False, True), strict=True)
    reads, back = (reads_with(table, real, x, plan, back) for table, back in ways)
    yield f"shift, {name}", lambda: shift.shift(run, x, reads)
    unaligned = MOST | dict(aligned=False)
    yield f"pairs, {name}", lambda: pairs.order_pairs(run, x, reads, **unaligned)
    yield f"aligned pairs, {name}", lambda: pairs.order_pairs(run, x, reads, **MOST)
    yield f"pairs back, {name}", lambda: pairs.undo_pairs(run, x, back, words)


def launches(call):
    """Return the arguments and options of the last launch of each kernel in `call`."""
    started = {}
    for kernel in KERNELS:

        def record(*args, grid, warmup, kernel=kernel, **kwargs):
            names = kernel.arg_names
            options = {key: value for key, value in kwargs.items() if key not in names}
            given = dict(zip(names, args, strict=False))
            started[kernel] = given | {k: v for k, v in kwargs.items() if k in names}, options

        kernel.run = record
    call()
    return started


def source(kernel, arguments):
    """Return the source of a kernel, specialized for these arguments as in a launch."""
    signature, constants, attributes = {}, {}, {}
    for index, parameter in enumerate(kernel.params):
        value = arguments[parameter.name]
        if parameter.is_constexpr or value is None or (type(value) is int and value == 1):
            signature[parameter.name], constants[parameter.name] = "constexpr", value
            continue
        tensor = isinstance(value, torch.Tensor)
        signature[parameter.name] = POINTERS[value.dtype] if tensor else "i32"
        if tensor or (value % 16 == 0 and not parameter.do_not_specialize):
            attributes[(index,)] = [["tt.divisibility", 16]]
    return ASTSource(kernel, signature, constants, attributes)


def usage(cubin):
    """Return registers per thread, bytes of stack, and instructions of a compiled kernel."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [tool, "--dump-resource-usage", "--dump-sass", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", text))
    code = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?!\s|NOP|BRA)", text, re.MULTILINE)
    return {key: int(value) for key, value in found.items()} | {"instructions": len(code)}


def main():
    for name, call in calls():
        for kernel, (arguments, options) in launches(call).items():
            for capability in CAPABILITIES:
                target = GPUTarget("cuda", capability, 32)
                made = triton.compile(source(kernel, arguments), target=target, options=options)
                report = {
                    "triton": triton.__version__,
                    "call": name,
                    "kernel": kernel.__name__,
                    "dtype": str(arguments.get("x", arguments.get("grad")).dtype),
                    "capability": capability,
                    "flushes": ".ftz" in made.asm["ptx"],
                    "shared": made.metadata.shared,
                    **usage(made.asm["cubin"]),
                }
                sizes = [arguments.get(name, 1) for name in ("TOKENS", "LENGTH", "GROUPS")]
                values = prod(sizes) * arguments["CHANNELS"]
                threads = 32 * options["num_warps"]
                report["per_value"] = report["instructions"] * threads / values
                print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
