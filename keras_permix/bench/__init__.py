"""Benchmark ops, layers and models against attention.

Example:

>>> from keras_permix.bench.timing import medians
>>> milliseconds = medians([lambda: sum(range(10)), lambda: sum(range(100_000))], repeats=1)
>>> milliseconds[0] < milliseconds[1]
True
"""
