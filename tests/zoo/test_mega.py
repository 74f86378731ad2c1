"""Test MEGA: NumPy reference, padding, parameter counts, streaming, image sizes and errors."""

import keras
import numpy as np
import pytest

from keras_permix.layers import SoftmaxAttention
from keras_permix.zoo import CSPMEGA, MEGA
from tests.backends import quick
from tests.harness import assert_close, fit_once, to_numpy
from tests.layers.mega.test_mega_block import attending, weights_by_layer
from tests.oracle import mega as oracle
from tests.oracle import permutations
from tests.oracle.butterfly import gelu
from tests.zoo.models import tiny

IMAGE = dict(image_size=4, mean=[0.48], std=[0.24])
SORT = {"name": "csp", "group_size": None}
GROUPS_OF_TWO = {"name": "csp", "group_size": 2, "shift": "linear_head"}


def weight(model, layer):
    return [to_numpy(weight).astype("float64") for weight in model.get_layer(layer).weights]


def embed(model, inputs):
    """Return embedded tokens (batch, tokens, width) and their mask, with two sequences per pair."""
    if not isinstance(inputs, dict):
        (kernel, bias), config = weight(model, "embedding"), model.get_config()
        pixels = (inputs / 255 - config["mean"][0]) / config["std"][0]
        x = pixels.reshape(len(inputs), -1, 1) * kernel + bias
        return x, np.ones(x.shape[:2], bool)
    tokens, mask = (inputs[name].reshape(-1, inputs[name].shape[-1]) for name in ("tokens", "mask"))
    return weight(model, "embedding")[0][tokens] * mask[..., None], mask


def mixing(model, index, mask):
    """Return the mixing function of a block for the oracle."""
    config, block = model.get_config(), model.get_layer(f"block_{index}")
    if block.attends:
        return attending(block, mask, config["chunk_size"])
    steps = permutations.schedule(block.mixer.shift, block.inner_dim, index, config["num_layers"])

    def mix(shared, values):
        assert shared.shape[-1] == 0
        size = block.mixer.group_size
        return permutations.values(values, permutations.csp(values, steps, size, mask=mask))

    return mix


def expected(model, inputs):
    """Compute the logits in NumPy."""
    config = model.get_config()
    kind, norm_first = config["norm"], config["norm_first"]
    x, mask = embed(model, inputs)
    for index in range(config["num_layers"]):
        block = model.get_layer(f"block_{index}")
        given = dict(kind=kind, norm_first=norm_first, truncation=config["truncation"], mask=mask)
        x = oracle.mega_block(x, weights_by_layer(block), mixing(model, index, mask), **given)
    x = oracle.norm(kind, x, weight(model, "norm")) if norm_first else x
    pooled = (x * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    if config["pairs"]:
        pooled = pooled.reshape(len(pooled) // 2, -1)
    kernel, bias = weight(model, "classifier")
    return gelu(pooled @ kernel + bias) @ weight(model, "head")[0]


CASES = {
    "causal": dict(causal=True, position_bias="rotary", norm_first=False, norm="scalenorm"),
    "chunks": dict(mixer="laplace", chunk_size=5, truncation=3, norm="batchnorm", mlp_dim=7),
    "complete sort": dict(mixer=SORT, classifier_dim=5),
    "shift": dict(mixer="circular_shift", norm="rmsnorm"),
    "pairs": dict(pairs=True, mixer=GROUPS_OF_TWO),
    "image": dict(**IMAGE, mixer="relu2", chunk_size=8),
    "image of groups": dict(**IMAGE, mixer={**GROUPS_OF_TWO, "shift": "power_code"}, num_layers=2),
}


def make(**changes):
    return tiny("MEGA", **{"mixer": "softmax", "chunk_size": None, "num_layers": 1, **changes})


@pytest.mark.parametrize("case", CASES)
def test_logits_match_numpy(case):
    model = make(**CASES[case])
    inputs = model.make_inputs(0, 4)
    wanted, call = expected(model, inputs), quick(model)
    assert_close(to_numpy(call(inputs)), wanted, kind="model")
    if model.task == "text_classification":
        _check_padding(call, inputs, wanted)


def _check_padding(call, inputs, wanted):
    """Check that logits do not depend on padded tokens or on the amount of padding."""
    tokens, mask = inputs["tokens"], inputs["mask"]
    other = {"tokens": np.where(mask, tokens, 1).astype("int32"), "mask": mask}
    assert_close(to_numpy(call(other)), wanted, kind="model")
    sample = np.flatnonzero((mask.sum(axis=1) > 5) & ~mask.all(axis=1))[0]
    length = mask[sample].sum()
    alone = {name: array[sample : sample + 1, :length] for name, array in inputs.items()}
    assert_close(to_numpy(call(alone)), wanted[sample : sample + 1], kind="model")


@pytest.mark.once
def test_padding_does_not_change_training_loss():
    """Batch statistics exclude padding."""
    model = make(norm="batchnorm", chunk_size=6)
    model.compile(keras.optimizers.SGD(0.0), "mse")
    tokens = np.random.default_rng(0).integers(1, 20, (4, 12), "int32")
    text, zeros = {"tokens": tokens, "mask": np.arange(12) < [[3], [7], [1], [6]]}, np.zeros((4, 3))
    short = {name: array[:, :7] for name, array in text.items()}
    inference_loss = np.square(expected(model, short)).mean()
    loss = model.train_on_batch(text, zeros)
    assert_close(model.train_on_batch(short, zeros), loss)
    assert abs(loss / inference_loss - 1) > 1e-2


@pytest.mark.once
def test_train_on_images_and_pairs():
    for arguments in (IMAGE, dict(pairs=True)):
        assert np.isfinite(fit_once(make(**arguments)))


# Encoder stacks: arguments, the CSP mixer, parameters with attention and with CSP.
LONG = dict(
    hidden_dim=128, inner_dim=256, norm="scalenorm", norm_first=False, max_sequence_length=4002
)
STACKS = {
    "listops": (
        dict(
            hidden_dim=80, inner_dim=160, num_layers=6, norm_first=False, max_sequence_length=2002
        ),
        (SORT, 586_098, 529_440),
    ),
    "text": (dict(**LONG, num_layers=4), (SORT, 923_668, 857_608)),
    "retrieval": (dict(**LONG, num_layers=6, pairs=True), (SORT, 1_385_502, 1_286_412)),
    "image": (
        dict(
            hidden_dim=160,
            inner_dim=320,
            shared_dim=96,
            num_layers=8,
            norm="batchnorm",
            image_size=32,
        ),
        ({"name": "circular_shift", "shift": "linear_head"}, 2_783_736, 2_640_640),
    ),
    "pathfinder": (
        dict(hidden_dim=128, inner_dim=256, num_layers=6, norm="batchnorm", image_size=32),
        (GROUPS_OF_TWO, 1_352_826, 1_289_472),
    ),
    "path-x": (
        dict(
            hidden_dim=64,
            inner_dim=128,
            shared_dim=32,
            num_layers=4,
            norm="batchnorm",
            image_size=128,
        ),
        ({**GROUPS_OF_TWO, "shift": "power_code"}, 373_116, 233_216),
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("task", STACKS)
def test_parameter_counts_match_paper(task):
    arguments, (permutation, *wanted) = STACKS[task]
    for mixer, parameters in zip(("laplace", permutation), wanted, strict=True):
        model = MEGA(**arguments, mixer=mixer)
        blocks = [model.get_layer(f"block_{index}") for index in range(arguments["num_layers"])]
        weights = [weight for block in blocks for weight in block.trainable_weights]
        assert sum(np.prod(weight.shape) for weight in weights) == parameters


@pytest.mark.once
def test_embedding_and_head_match_paper():
    text = MEGA(
        num_classes=5, vocabulary_size=2000, max_sequence_length=8, hidden_dim=64, num_layers=1
    )
    image = MEGA(
        num_classes=5, image_size=2, hidden_dim=4096, inner_dim=2, shared_dim=2, num_layers=1
    )
    (table,), (kernel, bias) = weight(text, "embedding"), weight(image, "embedding")
    for values, deviation in ((table, 1 / 8), (kernel, 1.0), (bias, 0.1)):
        assert abs(values.mean()) < 0.1 * deviation
        assert abs(values.std() / deviation - 1) < 0.1
    assert [kernel.shape for kernel in weight(text, "head")] == [(128, 5)]
    assert len(weight(tiny("MEGA", pairs=True), "classifier")[0]) == 2 * 8


@pytest.mark.once
def test_cspmega_equals_mega_with_csp():
    arguments = dict(max_sequence_length=8, hidden_dim=8, num_layers=2, ema_dim=2)
    model, mega = CSPMEGA(**arguments), MEGA(**arguments, mixer=SORT)
    mega.set_weights(model.get_weights())
    inputs = model.make_inputs(0, 2)
    np.testing.assert_array_equal(to_numpy(model(inputs)), to_numpy(mega(inputs)))


@pytest.mark.once
def test_keep_unused_params():
    """Per block: the shared projection, its scales and shifts, and the position biases."""
    model, kept = tiny("CSPMEGA"), tiny("CSPMEGA", keep_unused_params=True)
    more = (8 + 1) * 4 + 2 * 2 * 4 + (2 * 12 - 1)
    assert kept.count_params() - model.count_params() == 2 * more
    trained = [weight.path for weight in kept.trainable_weights]
    kept.trainable = False
    kept.trainable = True
    assert [weight.path for weight in kept.trainable_weights] == trained
    assert len(trained) < len(kept.weights)


STREAMS = {
    "chunks": (dict(mixer="laplace", chunk_size=5, norm="batchnorm", num_layers=2), (3, 1, 1, 7)),
    "whole": (dict(position_bias="rotary", norm_first=False), (11, 1)),
}


@pytest.mark.parametrize("case", STREAMS)
def test_streaming_matches_whole_text(case):
    """Pieces have one or several tokens and cross chunk boundaries."""
    arguments, pieces = STREAMS[case]
    model = make(**arguments, causal=True, dropout=0.5, hidden_dropout=0.5)
    tokens = np.random.default_rng(0).integers(0, 20, (2, 12), "int32")
    text = {"tokens": tokens, "mask": np.ones_like(tokens, bool)}
    whole, call = to_numpy(quick(model.backbone)(text)), quick(model.chunk)
    end, state, sizes = 0, model.initial_state(2), set()
    for piece in pieces:
        start, end = end, end + piece
        outputs, state = call(tokens[:, start:end], state)
        assert_close(to_numpy(outputs["features"]), whole[:, start:end], kind="model")
        so_far = {name: array[:, :end] for name, array in text.items()}
        assert_close(to_numpy(outputs["logits"]), expected(model, so_far), kind="model")
        sizes.add(tuple(np.shape(array) for array in keras.tree.flatten(state)))
    assert len(sizes) == 1 and int(state["position"]) == 12


@pytest.mark.once
def test_step_takes_lists_and_chunk_at_least_one_token():
    model = make(causal=True)
    outputs, _ = model.step([1, 2], model.initial_state(2))
    expected, _ = model.chunk([[1], [2]], model.initial_state(2))
    np.testing.assert_array_equal(to_numpy(outputs["logits"]), to_numpy(expected["logits"]))
    with pytest.raises(ValueError, match=r"`tokens` must be .batch, tokens.*shape=\(2, 0\)"):
        model.chunk(np.zeros((2, 0), "int32"), model.initial_state(2))


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(), "`initial_state` requires causal=True.*Received: causal=False"),
        (dict(mixer=SORT), "`initial_state` requires causal=True. Received: causal=False"),
        (dict(causal=True, truncation=3), "truncation=None.*truncation=3"),
        (dict(causal=True, pairs=True), "requires single texts. Received: pair"),
        (dict(causal=True, image_size=4), "requires single texts. Received: image"),
        (dict(causal=True, vocabulary_size=3), r"`tokens` must be integers in .0, 3.*to 3,"),
        (
            dict(causal=True, max_sequence_length=3),
            "at most 3 tokens. Received: tokens=4",
        ),
    ],
)
def test_unsupported_streaming_raises(arguments, message):
    model = make(**arguments)
    with pytest.raises(ValueError, match=message):
        model.chunk(np.full((2, 4), 3), model.initial_state(2))


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(hidden_dim=0), "`hidden_dim` must be a positive integer.*hidden_dim=0"),
        (dict(num_layers=0), "`num_layers` must be a positive integer.*num_layers=0"),
        (dict(ema_dim=0), "`ema_dim` must be a positive integer.*ema_dim=0"),
        (dict(inner_dim=0), "`inner_dim` must be a positive integer or None.*inner_dim=0"),
        (dict(mlp_dim=0), "`mlp_dim` must be a positive integer or None.*mlp_dim=0"),
        (dict(classifier_dim=0), "`classifier_dim` must be a positive integer or None.*=0"),
        (dict(shared_dim=0), "`shared_dim` must be a positive integer.*shared_dim=0"),
        (dict(truncation=0), "`truncation` must be a positive integer or None.*truncation=0"),
        (dict(chunk_size=0), "`chunk_size` must be a positive integer or None.*chunk_size=0"),
        (
            dict(max_sequence_length=0),
            "`max_sequence_length` must be a positive integer.*max_sequence_length=0",
        ),
        (dict(norm="groupnorm"), "`norm` must be one of.*'groupnorm'"),
        (dict(position_bias="sine"), "`position_bias` must be one of.*'sine'"),
        (dict(mixer="attention"), "`mixer` must be one of.*'laplace'.*'csp'.*'attention'"),
        (dict(mixer=SoftmaxAttention()), "`mixer` must be one of.*'laplace'.*'attention'"),
        (dict(mixer={"name": "softmax", "size": 2}), "softmax accepts.*Received: .'size'"),
        (dict(mixer={"name": "csp", "group": 2}), "passed to CSP: .*group"),
        (dict(mixer="csp", causal=True), "`mixer` must be an attention function"),
        (dict(mixer="csp", chunk_size=4), "`mixer` must be an attention function"),
        (dict(dropout=1), r"`dropout` must be in \[0, 1\).*dropout=1"),
        (dict(hidden_dropout=2), r"`hidden_dropout` must be in \[0, 1\).*hidden_dropout=2"),
        (dict(attention_dropout=-1), r"`attention_dropout` must be in \[0, 1\).*dropout=-1"),
        (dict(image_size=6, chunk_size=8), "`chunk_size` must divide.*chunk_size=8"),
        (dict(image_size=3, mixer="csp"), "`group_size` must divide.*group_size=2"),
        (dict(image_size=4, pairs=True), "`pairs` must be False.*image_size=4"),
        (dict(image_size=4, std=(0,)), "`std` must be a positive number.*std="),
    ],
)
def test_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        make(**arguments)


@pytest.mark.once
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (dict(tokens=np.full((2, 4), 20), mask=np.ones((2, 4))), "`tokens` must be.*to 20,"),
        (
            dict(tokens=np.ones((2, 13), int), mask=np.ones((2, 13))),
            "max_sequence_length=12.*tokens=13",
        ),
    ],
)
def test_invalid_tokens_raise(inputs, message):
    model = make()
    for call in (model, lambda inputs: model.predict(inputs, verbose=0)):
        with pytest.raises(ValueError, match=message):
            call(inputs)


def moves(distance, columns):
    """Split a distance between pixels in row-major order into the nearest rows and columns."""
    rows = range(-columns, columns + 1)
    down = min(rows, key=lambda row: (abs(distance - row * columns), abs(row)))
    return down, distance - down * columns


@pytest.mark.parametrize("size", [6, 2])
def test_new_image_size_resamples_position_biases(size, tmp_path):
    model = MEGA(**IMAGE, num_classes=3, hidden_dim=8, inner_dim=8, shared_dim=4, num_layers=2)
    rng = np.random.default_rng(0)
    for table in (model.get_layer(f"block_{index}").attention.bias_table for index in range(2)):
        table.assign(rng.normal(size=table.shape))
    model.save_to_preset(tmp_path / "preset")
    other = MEGA.from_preset(tmp_path / "preset", image_size=size)
    before = {weight.path: to_numpy(weight) for weight in model.weights}
    for weight in other.weights:
        value = before[weight.path]
        if weight.path.endswith("bias_table"):
            table = []
            for distance in range(1 - size**2, size**2):
                down, right = (round(move * 4 / size) for move in moves(distance, size))
                table.append(value[max(-15, min(15, 4 * down + right)) + 15])
            value = np.array(table)
        np.testing.assert_array_equal(to_numpy(weight), value)
    images = np.zeros((2, size, size, 1), "uint8")
    assert other.predict(images, verbose=0).shape == (2, 3)


def test_new_image_size_keeps_position_biases_of_chunks(tmp_path):
    model = MEGA(
        **IMAGE, num_classes=3, hidden_dim=8, inner_dim=8, shared_dim=4, num_layers=1, chunk_size=4
    )
    model.save_to_preset(tmp_path / "preset")
    other = MEGA.from_preset(tmp_path / "preset", image_size=6)
    for weight, value in zip(other.weights, model.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(weight), to_numpy(value))
