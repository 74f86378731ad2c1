"""Compile JAX programs with Triton kernels for absent GPUs, and report their resource usage.

    python -m tests.accelerators.jax_triton_ahead

Prints one line of JSON per program. Requires JAX 0.11 with its CUDA plugin, and jax-triton.
"""

import json
import os
import re
import subprocess
import tempfile
import zlib
from pathlib import Path

import numpy as np

STEPS = tuple(range(48))
# Limits of two chips, from NVIDIA's data sheets.
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
    """Yield name, dtype, op and arguments of programs that use every kernel."""
    mask = np.arange(32) < np.array([[32], [20]])
    pairs = dict(steps=STEPS, group_size=2)
    yield "shift", "float32", "channel_shift", dict(steps=STEPS)
    yield "pairs", "float32", "csp", pairs
    yield "pairs in bfloat16", "bfloat16", "csp", pairs
    yield "pairs, masked", "float32", "csp", dict(**pairs, mask=mask)
    yield "aligned", "float16", "csp", dict(steps=STEPS, group_size=8, align="reference")
    yield "descending, masked", "bfloat16", "slice_sort", dict(descending=True, mask=mask)


def compiler():
    """Return the folder of NVIDIA's compiler, which is installed with the CUDA plugin."""
    import nvidia

    return Path(next(iter(nvidia.__path__)), "cu13")


def usage(ptx):
    """Return the registers per thread and the bytes of stack of the kernel in a PTX file."""
    target = re.search(r"\.target (sm_\w+)", ptx.read_text())
    command = [compiler() / "bin" / "ptxas", "-v", f"-arch={target[1]}", ptx, "-o", os.devnull]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = re.search(r"(\d+) bytes stack frame.*\n.*Used (\d+) reg", text)
    return {"kernel": ptx.stem, "STACK": int(found[1]), "REG": int(found[2])}


def kernels_of(lowered):
    """Return the kernels that a program calls, in order."""
    found = []

    def visit(op):
        from jax.extend.mlir import ir

        if op.name == "stablehlo.custom_call" and "triton" in str(
            op.attributes["call_target_name"]
        ):
            opaque = op.attributes["mhlo.backend_config"]["opaque"].value_bytes
            found.append(re.search(rb"\w+_kernel", zlib.decompress(opaque))[0].decode())
        return ir.WalkResult.ADVANCE

    lowered.compiler_ir().operation.walk(visit)
    return found


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "JAX_PLATFORMS": "cpu",
            "JAX_TRITON_DUMP_DIR": folder,
            "KERAS_BACKEND": "jax",
            "PATH": f"{compiler() / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "XLA_FLAGS": f"--xla_gpu_cuda_data_dir={compiler()} --xla_gpu_autotune_level=0",
        }
        for report in reports(Path(folder)):
            print(json.dumps(report), flush=True)


def reports(folder):
    """Yield the kernels of every program, and the resource usage of newly compiled kernels."""
    import jax
    from jax.experimental import topologies
    from jax.sharding import AbstractDevice, AbstractMesh, SingleDeviceSharding, use_abstract_mesh

    from keras_permix import ops
    from keras_permix.ops.backend.jax import runtime
    from tests.accelerators.chips import CHIPS

    runtime.hardware = lambda x: CHIPS["A100"].hardware()  # the GPU that the ops detect
    for capability, limits in LIMITS.items():
        major, minor = capability.split(".")
        target = TARGET.format(major=major, minor=minor, **limits)
        chip = topologies.get_topology_desc("chip", "cuda", target_config=target, topology="1x1x1")
        device = chip.devices[0]
        sharding = SingleDeviceSharding(device)
        present = AbstractMesh(
            (), (), abstract_device=AbstractDevice(device.device_kind, None, "gpu")
        )
        for name, dtype, op, arguments in cases():

            def both(x, op=op, arguments=arguments):
                result, pull = jax.vjp(lambda x: getattr(ops, op)(x, **arguments), x)
                return result, pull(x)

            x = jax.ShapeDtypeStruct((2, 32, len(STEPS)), dtype, sharding=sharding)
            with use_abstract_mesh(present):
                lowered = jax.jit(both).lower(x)
            text, files = lowered.compile().as_text(), list(folder.glob("*/*.ptx"))
            yield {
                "case": name,
                "capability": capability,
                "kernels": kernels_of(lowered),
                "compiled": text.count('custom_call_target="triton_kernel_call_ffi"'),
                "usage": list(map(usage, files)),
            }
            for file in files:
                file.unlink()


if __name__ == "__main__":
    main()
