"""Which of JAX's implementations serve which device."""

import keras
import pytest

from keras_permix import ops

pytestmark = pytest.mark.skipif(keras.config.backend() != "jax", reason="JAX runs Pallas's kernels")


@pytest.mark.parametrize(
    ("tokens", "device", "chosen"),
    [
        (256, ("tpu", 1), "tpu_pallas"),
        (8192, ("tpu", 1), "tpu_xla"),
        (256, ("tpu", 4), "tpu_xla"),
        (4096, ("gpu", 1), "gpu_pallas"),
        (256, ("gpu", 2), "native"),
        (8, ("cpu", 1), "native"),
    ],
)
def test_the_table_chooses(tokens, device, chosen, monkeypatch):
    monkeypatch.setattr("keras_permix.ops.backend.jax.rows.device", lambda x: device)
    x = keras.ops.zeros((1, tokens, 4))
    for name, arguments in {
        "channel_shift": ((0,) * 4,),
        "csp": ((0,) * 4, 2),
        "group_sort": (2,),
        "slice_sort": (),
    }.items():
        assert ops.explain(name, x, *arguments).chosen == chosen


def test_a_gpu_holds_groups_of_4096(monkeypatch):
    monkeypatch.setattr("keras_permix.ops.backend.jax.rows.device", lambda x: ("gpu", 1))
    x = keras.ops.zeros((1, 8192, 4))
    for group_size, chosen in ((4096, "gpu_pallas"), (8192, "native")):
        assert ops.explain("csp", x, (0,) * 4, group_size).chosen == chosen
    assert ops.explain("slice_sort", x).chosen == "native"
