"""Benchmark ops, layers and models against attention.

`permix bench` runs `measure(case, repeats, dtype)` of a module for each of its `CASES`, with
`repeats` rounds of `medians` and a compute dtype (weights are float32). It yields dicts with the
same keys, the columns of a table, and `plot(rows, path)` draws them.

Example:
    >>> from keras_permix.bench import layers
    >>> list(layers.CASES)[:2]
    ['32x256', '8x1024']
"""
