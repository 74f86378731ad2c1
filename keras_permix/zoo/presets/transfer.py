"""The weights of one model in another that differs in its head or its image size."""

import math

from keras import ops

from keras_permix.layers.embedding.positions import PositionEmbedding


def transfer_weights(source, target, overrides):
    """Give `target` the weights of `source`, by their paths.

    A position table of another size is resized. A head for another number of classes keeps its
    fresh weights.

    Args:
        source: The model with the weights.
        target: A model of the same class.
        overrides: The arguments in which they differ, for the error.

    Raises:
        ValueError: if another weight has no counterpart of its shape.
    """
    weights = {weight.path: weight for weight in source.weights}
    tables = {table.path: layer for layer in target.layers for table in _tables(layer)}
    new_head = source.output_shape != target.output_shape
    for weight in target.weights:
        if new_head and weight.path.startswith("head/"):
            continue
        value = weights.get(weight.path)
        if value is not None and weight.path in tables:
            before, after = source.get_layer(tables[weight.path].name), tables[weight.path]
            value = resize_table(value, weight.shape[1], _extra_rows(before), _extra_rows(after))
        if value is None or tuple(value.shape) != tuple(weight.shape):
            raise ValueError(
                "A preset's weights fit another `num_classes` or `image_size`, and arguments that "
                "shape no weight. Pass `load_weights=False` to change more. "
                f"Received: {overrides}, with which `{weight.path}` is {tuple(weight.shape)} "
                f"instead of {None if value is None else tuple(value.shape)}"
            )
        weight.assign(ops.cast(value, weight.dtype))


def resize_table(table, rows, extra_before, extra_after):
    """Resize the grid of a position table bicubically.

    Args:
        table: `(1, rows, width)`.
        rows: Rows wanted.
        extra_before, extra_after: `(first, last)`, the rows in front of and behind the grid, which
            are kept as they are, in the table as it is and as wanted.

    Returns:
        `(1, rows, width)`, or `None` where the extra rows differ.
    """
    if extra_before != extra_after:
        return None
    first, last = extra_before
    old, new = (math.isqrt(count - first - last) for count in (table.shape[1], rows))
    if old == new:
        return ops.convert_to_tensor(table)
    width = table.shape[2]
    table = ops.cast(table, "float32")
    end = first + old * old
    grid = ops.reshape(table[:, first:end], (1, old, old, width))
    # Without antialiasing the backends' bicubic filters differ.
    grid = ops.image.resize(
        grid, (new, new), interpolation="bicubic", antialias=True, data_format="channels_last"
    )
    grid = ops.reshape(grid, (1, new * new, width))
    return ops.concatenate([table[:, :first], grid, table[:, end:]], axis=1)


def _tables(layer):
    return [layer.table] if isinstance(layer, PositionEmbedding) else []


def _extra_rows(layer):
    first = int(layer.use_class_token)
    return first, int(layer.keep_unused and not first)
