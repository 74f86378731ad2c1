"""Compile the Pallas kernels of a GPU by JAX's CUDA plugin, without a GPU, and say what they take.

    python -m tests.accelerators.pallas_gpu_ahead

prints one line of JSON for every kernel of every program.
"""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

STEPS = tuple(range(48))
GROUPS = (4, 64, 256, 1024, 2048, 4096)
DTYPES = ("float32", "bfloat16")  # float16 and bfloat16 are the same integers
# The limits of two chips, as NVIDIA's data sheets have them.
LIMITS = {
    "8.0": dict(name="NVIDIA A100", cores=108, shared=167936, optin=166912, clock=1.41,
                bandwidth=2039 * 10**9, memory=85100068864, l2=41943040),
    "9.0": dict(name="NVIDIA H200", cores=132, shared=233472, optin=232448, clock=1.98,
                bandwidth=4800 * 10**9, memory=151397597184, l2=52428800),
}  # fmt: skip
TARGET = """
gpu_device_info {{
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  threads_per_warp: 32 threads_per_block_limit: 1024 threads_per_core_limit: 2048
  registers_per_block_limit: 65536 registers_per_core_limit: 65536
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  shared_memory_per_block: 49152 shared_memory_per_block_optin: {optin}
  shared_memory_per_core: {shared} fpus_per_core: 128 core_count: {cores} clock_rate_ghz: {clock}
  memory_bandwidth: {bandwidth} l2_cache_size: {l2} device_memory_size: {memory}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 }}
device_description_str: "{name}"
"""


def cases():
    """Name, op by name, arguments and tokens of programs that hold every kernel."""
    yield "shift", "channel_shift", dict(steps=STEPS), 196
    for tokens in (196, 65536):
        yield f"pairs of {tokens}", "csp", dict(steps=STEPS, group_size=2), tokens
    for size in GROUPS:
        yield f"groups of {size}", "csp", dict(steps=STEPS, group_size=size), 2 * size
    for tokens in (196, 4095):
        yield f"no power of two, {tokens}", "group_sort", dict(group_size=tokens), tokens
    yield "aligned", "csp", dict(steps=STEPS, group_size=49, align="reference"), 196
    yield "downwards", "slice_sort", dict(descending=True), 256


def compiler():
    """The folder of NVIDIA's compiler, which the wheels of the plugin bring along."""
    import nvidia

    return Path(next(iter(nvidia.__path__)), "cu13")


def usage(ptx):
    """Registers a thread, and bytes of stack, of every kernel of ours in a file of PTX."""
    target = re.search(r"\.target (sm_\w+)", ptx.read_text())
    if not target:  # only constants
        return
    command = [compiler() / "bin" / "ptxas", "-v", f"-arch={target[1]}", ptx, "-o", os.devnull]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = r"entry function 'permix_(\w+)'.*\n.*\n *(\d+) bytes stack frame.*\n.*Used (\d+) reg"
    for kernel, stack, registers in re.findall(found, text):
        yield {"kernel": kernel, "REG": int(registers), "STACK": int(stack)}


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "KERAS_BACKEND": "jax",
            "JAX_PLATFORMS": "cpu",
            "PATH": f"{compiler() / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "XLA_FLAGS": f"--xla_gpu_cuda_data_dir={compiler()} --xla_gpu_autotune_level=0 "
            f"--xla_dump_to={folder} --xla_dump_hlo_as_text=false",
        }
        for report in reports(Path(folder)):
            print(json.dumps(report), flush=True)


def reports(folder):
    """What every kernel takes, program after program; XLA writes them to `folder`."""
    import jax
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    from keras_permix import ops
    from keras_permix.ops.backend.jax import rows
    from tests.accelerators.chips import CHIPS

    rows.hardware = lambda x: CHIPS["A100"].hardware()  # which the ops take for the present one

    def program(op, arguments, differentiated):
        def value(x):
            return getattr(ops, op)(x, **arguments)

        def both(x):
            result, pull = jax.vjp(value, x)
            return result, pull(x)

        return jax.jit(both if differentiated else value)

    for capability, limits in LIMITS.items():
        major, minor = capability.split(".")
        target = TARGET.format(major=major, minor=minor, **limits)
        chip = topologies.get_topology_desc("chip", "cuda", target_config=target, topology="1x1x1")
        sharding = SingleDeviceSharding(chip.devices[0])
        for dtype in DTYPES:
            for name, op, arguments, tokens in cases():
                x = jax.ShapeDtypeStruct((2, tokens, len(STEPS)), dtype, sharding=sharding)
                for differentiated in (False, True):
                    program(op, arguments, differentiated).lower(x).compile()
                    facts = dict(case=name, dtype=dtype, capability=capability, jax=jax.__version__)
                    for ptx in folder.glob("*.ptx"):
                        for found in usage(ptx):
                            yield facts | found | {"differentiated": differentiated}
                    for file in folder.iterdir():
                        file.unlink()


if __name__ == "__main__":
    main()
