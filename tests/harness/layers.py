"""Check what all layers support: shapes, masks, config, files, dtypes and training."""

import json
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.backends import quick
from tests.harness.values import assert_close, to_numpy


def functional(layer, shape):
    """Return a model of one layer."""
    inputs = keras.Input(shape)
    return keras.Model(inputs, layer(inputs))


def check_layer(make, shape, *, numerics=True, continuous=True, masked=True, any_length=True):
    """Check shapes, masks, config, files, clones, dtypes and training of a layer.

    Args:
        make: Function that returns a new layer. It accepts further arguments of the layer such as
            `dtype`.
        shape: Shape of the inputs, (batch, tokens, channels).
        numerics: Whether to check low precision and training, which take the most time.
        continuous: Whether close inputs give close outputs, so that low precision stays near
            float32. (Ranks of rounded values do not.)
        masked: Whether a mask changes the result, as in layers that mix tokens.
        any_length: Whether the number of tokens may be unknown.
    """
    inputs = np.random.default_rng(0).normal(size=shape).astype("float32")
    layer = make()
    outputs = to_numpy(layer(inputs))
    _check_shapes(layer, inputs, outputs)
    _check_functional(layer, inputs, outputs, any_length)
    if masked:
        _check_mask(layer, inputs)
    _check_config(layer, inputs, outputs)
    check_extended(functional(layer, inputs.shape[1:]), inputs)
    if numerics:
        for policy in ("mixed_bfloat16", "mixed_float16"):
            _check_precision(make(dtype=policy), layer, inputs, outputs if continuous else None)
        _check_fit(make(), inputs)
        assert not functional(make(trainable=False), inputs.shape[1:]).trainable_weights


def check_extended(model, inputs, kept=None):
    """Check saving, loading and cloning of a model that is cut and extended by a new layer.

    Args:
        model: A functional model.
        inputs: Inputs of the model.
        kept: The tensor where the model is cut, passed to the new layer. Defaults to its output.
    """
    kept = model.output if kept is None else kept
    extended = keras.Model(model.input, [kept, keras.layers.Dense(3)(kept)])
    expected = extended(inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.keras")
        extended.save(path)
        loaded = keras.saving.load_model(path)
    clone = keras.models.clone_model(loaded)
    clone.set_weights(extended.get_weights())
    for copy in (loaded, clone):
        for outputs, wanted in zip(copy(inputs), expected, strict=True):
            np.testing.assert_array_equal(to_numpy(outputs), to_numpy(wanted))


def _check_shapes(layer, inputs, outputs):
    assert layer.compute_output_shape(inputs.shape) == outputs.shape
    spec = layer.compute_output_spec(keras.KerasTensor((None, *inputs.shape[1:])))
    assert (spec.shape, spec.dtype) == ((None, *outputs.shape[1:]), "float32")
    assert outputs.dtype == "float32"


def _check_functional(layer, inputs, outputs, any_length):
    """Check that symbolic, compiled and eager calls agree, also for an unknown length."""
    known = inputs.shape[1]
    for tokens, batch in ((known, len(inputs)), (None if any_length else known, 1)):
        model = functional(layer, (tokens, *inputs.shape[2:]))
        model.summary(expand_nested=True, print_fn=lambda text: None)
        assert model.output_shape == (None, tokens, *outputs.shape[2:])
        assert_close(model.predict(inputs[:batch], verbose=0), outputs[:batch])


def _check_mask(layer, inputs):
    """Check that padding does not affect real tokens, and that a `Masking` layer sets the mask."""
    call = quick(lambda inputs, mask: layer(inputs, mask=mask))
    mask = np.random.default_rng(1).random(inputs.shape[:2]) < 0.7
    masked, unmasked = to_numpy(call(inputs, mask)), to_numpy(layer(inputs))
    other = np.where(mask[..., None], inputs, inputs + 100).astype("float32")
    assert_close(to_numpy(call(other, mask))[mask], masked[mask])
    assert not np.allclose(masked[mask], unmasked[mask])
    assert_close(to_numpy(call(inputs, np.ones_like(mask))), unmasked)

    sequence = keras.Input(inputs.shape[1:])
    marked = keras.layers.Masking()(sequence)
    model = keras.Model(sequence, layer(marked))
    assert_close(model.predict(inputs * mask[..., None], verbose=0)[mask], masked[mask])
    assert layer.supports_masking


def check_empty(layer, inputs, outputs, no_tokens, of_no_tokens):
    """Check calls with zero samples, and calls with zero tokens.

    Args:
        layer: A layer, built or not.
        inputs: A tuple of the inputs of the layer: arrays or dicts of arrays.
        outputs: Shape of the outputs for `inputs`.
        no_tokens: A tuple of inputs with zero tokens.
        of_no_tokens: Shape of the outputs for `no_tokens`, or `None` if the layer raises an error.
    """
    layer.build(*keras.tree.map_structure(np.shape, inputs))
    no_samples = keras.tree.map_structure(lambda x: x[:0], inputs)
    assert tuple(layer(*no_samples).shape) == (0, *outputs[1:])
    if of_no_tokens is None:
        rule = (
            r"(?s)(`\w+` must|Blocks must|expects|requires) .*Received: |expected axis 1 .*received"
        )
        with pytest.raises(ValueError, match=rule):
            layer(*no_tokens)
        return
    found = to_numpy(layer(*no_tokens))
    assert found.shape == of_no_tokens and np.isfinite(found).all()


def _check_config(layer, inputs, outputs):
    config = _through_json(keras.saving.serialize_keras_object(layer))
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(layer)
    assert _through_json(again.get_config()) == _through_json(layer.get_config())
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(to_numpy(again(inputs)), outputs)


def _through_json(config):
    """Convert a config to JSON and back, which turns the shapes of wrapped layers into lists."""
    return json.loads(json.dumps(config))


def _check_precision(low, layer, inputs, outputs):
    low.build(inputs.shape)
    low.set_weights(layer.get_weights())
    compute = low.compute_dtype
    # JAX does not compile attention in float16 for a CPU.
    result = (low if compute == "float16" else quick(low))(inputs)
    assert keras.backend.standardize_dtype(result.dtype) == compute
    assert {weight.dtype for weight in low.weights} == {low.variable_dtype}
    result = to_numpy(result)
    assert np.isfinite(result).all()
    if outputs is not None:
        assert_close(result, outputs, dtype=compute)


def _check_fit(layer, inputs):
    """Check that a step of `fit` changes all trainable weights, however small the gradient."""
    model = functional(layer, inputs.shape[1:])
    before = [weight.numpy() for weight in model.trainable_weights]
    model.compile(keras.optimizers.Lion(1.0), "mse")
    targets = np.random.default_rng(2).normal(size=inputs.shape).astype("float32")
    history = model.fit(inputs, targets, batch_size=len(inputs), verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert not np.array_equal(weight.numpy(), old), weight.path
