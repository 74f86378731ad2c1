"""Test constructor arguments of composite layers."""

import numpy as np
import pytest

from keras_permix.layers import CSP, MixerBlock, PatchEmbedding, SimpleAttention, SliceSort
from keras_permix.layers.parts.wrappers import make_dropout

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CSP(gruop_size=2), r"^CSP accepts .*\bnum_layers, .*Did you mean `group_size`"),
        (lambda: CSP(heads=2), r"^CSP accepts the arguments .*align.*Received: \['heads'\]"),
        (lambda: SliceSort(ordr="ascend"), "SliceSort accepts .*Did you mean `order`"),
        (lambda: SimpleAttention(2, key_dim=8), r"SimpleAttention .*head_dim.*\['key_dim'\]"),
        (lambda: MixerBlock("csp", 8, norm_frist=True), "MixerBlock .*Did you mean `norm_first`"),
        (lambda: PatchEmbedding(4, 8, hidden_dmi=2), "PatchEmbedding .*Did you mean `hidden_dim`"),
    ],
)
def test_unknown_argument_raises(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_keras_arguments_are_accepted():
    layer = CSP(name="mine", trainable=False, dtype="float16", autocast=False)
    assert layer.name == "mine" and not layer.trainable and layer.compute_dtype == "float16"


def test_dropout_stores_a_python_float():
    # JAX would promote bfloat16 with the type of NumPy.
    assert type(make_dropout(np.float32(0.5)).rate) is float
