"""What every layer keeps."""

import json
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.backends import quick
from tests.harness.values import assert_close, to_numpy


def functional(layer, shape):
    """A model of one layer."""
    inputs = keras.Input(shape)
    return keras.Model(inputs, layer(inputs))


def check_layer(make, shape, *, numerics=True, continuous=True, masked=True, any_length=True):
    """What every layer keeps: shapes, masks, config, files, clones, dtypes, that it learns or not.

    Args:
        make: Makes a new layer; takes further arguments of the layer such as `dtype`.
        shape: (batch, tokens, channels) to call it with.
        numerics: Whether to check low precision and training, which take the most time.
        continuous: Whether close inputs give close outputs, so that low precision stays near
            float32. (Ranks taken from rounded values do not.)
        masked: Whether a mask changes the result, as it does where tokens are mixed.
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
    """A model cut out of another, and extended, comes back from a file, and from it as a clone.

    Args:
        model: A functional model.
        inputs: What to call it with.
        kept: The tensor where it is cut, which goes to a new layer. `None`: its output.
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
    """Symbolic, compiled and eager calls agree, whatever the batch and the tokens."""
    known = inputs.shape[1]
    for tokens, batch in ((known, len(inputs)), (None if any_length else known, 1)):
        model = functional(layer, (tokens, *inputs.shape[2:]))
        model.summary(expand_nested=True, print_fn=lambda text: None)
        assert model.output_shape == (None, tokens, *outputs.shape[2:])
        assert_close(model.predict(inputs[:batch], verbose=0), outputs[:batch])


def _check_mask(layer, inputs):
    """Padding changes nothing at real tokens, and a mask arrives from the layer before."""
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
    """No samples give none; no tokens give none, or are refused in a sentence of ours.

    Args:
        layer: A layer that may not be built.
        inputs: A tuple of the arrays, or dicts of arrays, that it takes.
        outputs: The shape of what it makes of these.
        no_tokens: Such a tuple without tokens.
        of_no_tokens: The shape of what it makes of these; `None` if it refuses them.
    """
    layer.build(*keras.tree.map_structure(np.shape, inputs))
    no_samples = keras.tree.map_structure(lambda x: x[:0], inputs)
    assert tuple(layer(*no_samples).shape) == (0, *outputs[1:])
    if of_no_tokens is None:
        with pytest.raises(ValueError, match=r"(?s)(`\w+` must|takes|needs|requires) .*Received: "):
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
    """A config as a file has it, where Keras' shapes of wrapped layers become lists."""
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
    """One step of `fit` changes every weight that can be trained, however small its gradient."""
    model = functional(layer, inputs.shape[1:])
    before = [weight.numpy() for weight in model.trainable_weights]
    model.compile(keras.optimizers.Lion(1.0), "mse")
    targets = np.random.default_rng(2).normal(size=inputs.shape).astype("float32")
    history = model.fit(inputs, targets, batch_size=len(inputs), verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert not np.array_equal(weight.numpy(), old), weight.path
