"""Describe GPUs and TPUs that are not attached, with the attributes of JAX devices."""

from dataclasses import dataclass

from keras_permix.ops.backend.plan import Hardware


@dataclass(frozen=True)
class Chip:
    platform: str
    device_kind: str
    compute_capability: str | None = None

    def hardware(self, devices=1, sure=True, undivided=None):
        return Hardware(self.platform, devices, sure, self, undivided)


CHIPS = {
    "A100": Chip("gpu", "NVIDIA A100-SXM4-40GB", "8.0"),
    "H200": Chip("gpu", "NVIDIA H200", "9.0"),
    "T4": Chip("gpu", "Tesla T4", "7.5"),
    "MI300X": Chip("gpu", "AMD Instinct MI300X", "gfx942"),
    "v4": Chip("tpu", "TPU v4"),
    "v5e": Chip("tpu", "TPU v5 lite"),
    "v6e": Chip("tpu", "TPU v6 lite"),
}
