"""Parts that the models of the zoo are built from."""

import keras
from keras import ops

from keras_permix.layers.dense import Dense
from keras_permix.layers.dropout import make_dropout


@keras.saving.register_keras_serializable("keras_permix")
class ImagePreprocessor(keras.layers.Layer):
    """Turn images of 0–255 into normalised floats of the model's size.

    Input: `(batch, height, width, channels)`, any integer or float dtype, 0–255.
    Output: `(batch, image_size, image_size, channels)`, `(x / 255 - mean) / std`, computed in
    float32 and given in the layer's compute dtype. Images of another size are resized (bilinear,
    antialiased) before they are normalised.

    Args:
        image_size: Side of the output in pixels.
        mean, std: One value per channel, on the scale 0–1.
    """

    def __init__(self, image_size, mean, std, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.image_size = image_size
        self.mean = [float(value) for value in mean]
        self.std = [float(value) for value in std]

    def call(self, images):
        images = ops.cast(images, "float32")
        size = (self.image_size, self.image_size)
        if tuple(images.shape[1:3]) != size:
            images = ops.image.resize(images, size, interpolation="bilinear", antialias=True)
        mean = ops.convert_to_tensor([255 * value for value in self.mean], "float32")
        scale = ops.convert_to_tensor([1 / (255 * value) for value in self.std], "float32")
        return ops.cast((images - mean) * scale, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.image_size, self.image_size, input_shape[-1])

    def get_config(self):
        config = {"image_size": self.image_size, "mean": self.mean, "std": self.std}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable("keras_permix")
class PatchEmbedding(keras.layers.Layer):
    """Cut images into square patches and project each to a token.

    Input: `(batch, size, size, channels)`. Output: `(batch, (size / patch_size)**2, width)`, the
    patches in rows; a patch is flattened in (row, column, channel) order.

    Args:
        patch_size: Side of a patch in pixels; it divides the side of the image.
        width: Channels of a token.
    """

    def __init__(self, patch_size, width, **kwargs):
        super().__init__(**kwargs)
        self.patch_size = patch_size
        self.width = width

    def build(self, input_shape):
        self.dense = Dense(self.width, dtype=self.dtype_policy, name="projection")
        self.dense.build((None, None, self.patch_size**2 * input_shape[-1]))

    def call(self, images):
        rows, patch, channels = images.shape[1] // self.patch_size, self.patch_size, images.shape[3]
        patches = ops.reshape(images, (-1, rows, patch, rows, patch, channels))
        patches = ops.transpose(patches, (0, 1, 3, 2, 4, 5))
        return self.dense(ops.reshape(patches, (-1, rows * rows, patch * patch * channels)))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], (input_shape[1] // self.patch_size) ** 2, self.width)

    def get_config(self):
        return {**super().get_config(), "patch_size": self.patch_size, "width": self.width}


@keras.saving.register_keras_serializable("keras_permix")
class PositionEmbedding(keras.layers.Layer):
    """Add a learned position to every token, and prepend a class token where one is used.

    Input: `(batch, tokens, channels)`. Output: the same, or one token more.

    Args:
        use_class_token: Whether to prepend a learned class token.
        keep_unused: Without a class token, hold its weights and the position row that it would
            have all the same, so that parameter counts equal the papers'.
    """

    def __init__(self, use_class_token=False, keep_unused=False, **kwargs):
        super().__init__(**kwargs)
        self.use_class_token = use_class_token
        self.keep_unused = keep_unused

    def build(self, input_shape):
        _, tokens, width = input_shape
        has_class_token = self.use_class_token or self.keep_unused
        initializer = keras.initializers.TruncatedNormal(stddev=0.02)
        self.table = self.add_weight(
            shape=(1, tokens + has_class_token, width), initializer=initializer, name="table"
        )
        if has_class_token:
            self.class_token = self.add_weight(
                shape=(1, 1, width),
                initializer=initializer,
                trainable=self.use_class_token,
                name="class_token",
            )

    def call(self, tokens):
        if self.use_class_token:
            shape = (ops.shape(tokens)[0], 1, tokens.shape[-1])
            class_token = ops.broadcast_to(ops.cast(self.class_token, tokens.dtype), shape)
            tokens = ops.concatenate([class_token, tokens], axis=1)
        return tokens + ops.cast(self.table[:, : tokens.shape[1]], tokens.dtype)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[1] + self.use_class_token, input_shape[2])

    def get_config(self):
        config = {"use_class_token": self.use_class_token, "keep_unused": self.keep_unused}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable("keras_permix")
class MixerBlock(keras.layers.Layer):
    """Mix tokens, then mix channels, each with a residual and a normalisation.

    `x = x + mixer(norm(x))`, `x = x + dense(dropout(gelu(dense(norm(x)))))`, or post-norm,
    `x = norm(x + mixer(x))`, `x = norm(x + dense(dropout(gelu(dense(x)))))`.

    Input and output: `(batch, tokens, channels)`. An `attention_mask` goes to the mixer.

    Args:
        mixer: The layer that mixes tokens.
        mlp_dim: Hidden width of the channel mixer.
        dropout: Rate of the two dropouts of the channel mixer.
        epsilon: Epsilon of the layer normalisations.
        norm_first: Whether to normalise what is mixed (pre-norm) or the sum (post-norm).
    """

    def __init__(self, mixer, mlp_dim, dropout=0.0, epsilon=1e-5, norm_first=True, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.mixer = keras.layers.deserialize(mixer) if isinstance(mixer, dict) else mixer
        self.mlp_dim = mlp_dim
        self.dropout = dropout
        self.epsilon = epsilon
        self.norm_first = norm_first

    def build(self, input_shape):
        width, policy = input_shape[-1], self.dtype_policy
        norm = dict(epsilon=self.epsilon, dtype=policy)
        self.mixer_norm = keras.layers.LayerNormalization(**norm, name="mixer_norm")
        self.mlp_norm = keras.layers.LayerNormalization(**norm, name="mlp_norm")
        self.mlp_in = Dense(self.mlp_dim, "gelu", dtype=policy, name="mlp_in")
        self.mlp_out = Dense(width, dtype=policy, name="mlp_out")
        self.hidden_dropout = make_dropout(self.dropout, dtype=policy)
        self.output_dropout = make_dropout(self.dropout, dtype=policy)
        for layer in (self.mixer_norm, self.mixer, self.mlp_norm, self.mlp_in):
            layer.build(input_shape)
        self.mlp_out.build((*input_shape[:-1], self.mlp_dim))

    def call(self, tokens, mask=None, attention_mask=None):
        masks = {} if attention_mask is None else {"attention_mask": attention_mask}
        if self.norm_first:
            tokens = tokens + self.mixer(self.mixer_norm(tokens), mask=mask, **masks)
            return tokens + self._mlp(self.mlp_norm(tokens))
        tokens = self.mixer_norm(tokens + self.mixer(tokens, mask=mask, **masks))
        return self.mlp_norm(tokens + self._mlp(tokens))

    def _mlp(self, tokens):
        hidden = self.hidden_dropout(self.mlp_in(tokens))
        return self.output_dropout(self.mlp_out(hidden))

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)

    def get_config(self):
        return {
            **super().get_config(),
            "mixer": keras.layers.serialize(self.mixer),
            "mlp_dim": self.mlp_dim,
            "dropout": self.dropout,
            "epsilon": self.epsilon,
            "norm_first": self.norm_first,
        }
