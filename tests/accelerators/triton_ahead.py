"""Compile every launch of the Triton kernels ahead of time, without a GPU, and say what it takes.

    python -m tests.accelerators.triton_ahead

prints one line of JSON a launch. The launches are those of the package: its functions are called,
and what they would start is compiled instead, with the same arguments.
"""

import json
import re
import subprocess
import tempfile
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from keras_permix.ops.backend.plan import Plan
from keras_permix.ops.backend.torch.triton import channel_shift, group_sort, shift_pairs
from keras_permix.ops.backend.torch.triton.tables import reads_with, tables_for

CAPABILITIES = (80, 90)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
GROUPS = {  # float16 and bfloat16 are the same integers when they are sorted
    torch.float32: (4, 256, 1024, 8192),
    torch.float16: (16,),
    torch.bfloat16: (64, 4096),
}
STEPS = {  # tokens, and the step from channel to channel
    "fetched": (16384, 1024),
    "a circle of 64": (64, 1),
    "a circle of 196": (196, 1),
    "a circle of 4096": (4096, 1024),
    "arcs": (4096, 1),
}
MOST = dict(aligned=True, traced=True)
KERNELS = {
    channel_shift.shift_kernel,
    shift_pairs.order_pairs_kernel,
    shift_pairs.undo_pairs_kernel,
    group_sort.sort_groups_kernel,
    group_sort.put_back_kernel,
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
    """Name and call of everything a row may start, for forward and backward."""
    turn = torch.zeros(48, dtype=torch.int8)
    for dtype in DTYPES:
        yield from shifts(dtype)
        for size in GROUPS[dtype]:
            x = torch.zeros(2, 2 * size, 48, dtype=dtype)
            yield f"sort of {size}", lambda x=x, n=size: group_sort.sort_groups(x, n, **MOST)
            yield (
                f"sort of {size}, descending, values only",
                lambda x=x, n=size: group_sort.sort_groups(x, n, descending=turn),
            )
            places = torch.zeros(x.shape, dtype=torch.int16)
            yield f"put_back of {size}", lambda x=x, p=places, n=size: group_sort.put_back(x, p, n)


def shifts(dtype):
    """Those of shifts and pairs, for every window that their steps may lead to."""
    for name, (tokens, step) in STEPS.items():
        x = torch.zeros(2, tokens, 64, dtype=dtype)
        words = shift_pairs.empty_swaps(x)
        steps = tuple(step * channel for channel in range(64))
        plan = Plan(steps, group_size=1).at(tokens)
        reads, back = (reads_with(tables_for(x, plan, way), x, plan, way) for way in (False, True))
        yield f"shift, {name}", lambda x=x, r=reads: channel_shift.shift(x, r)
        yield f"pairs, {name}", lambda x=x, r=reads: shift_pairs.order_pairs(x, r, **MOST)
        yield (
            f"pairs back, {name}",
            lambda x=x, w=words, r=back: shift_pairs.undo_pairs(x, w, r),
        )


def launches(call):
    """What `call` would start: (kernel, arguments, options), the last launch only for each."""
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
    """The kernel for these arguments, specialized as a launch would."""
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
    """Registers a thread, and bytes of stack, from the resource table of a compiled kernel."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [tool, "--dump-resource-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", text))
    return {key: int(value) for key, value in found.items()}


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
                print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
