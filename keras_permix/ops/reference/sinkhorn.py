"""Sinkhorn's iterations, by whichever loop a backend compiles fast and can take the gradient of."""

from keras import backend, ops


def as_implementation(repeat):
    """Make `repeat(function, value, times)` serve calls of `sinkhorn`."""

    def serve(scores, mask, *, iterations, temperature):
        precise = backend.result_type(scores.dtype, "float32")
        logits = ops.cast(scores, precise) / ops.cast(temperature, precise)
        return ops.cast(ops.exp(repeat(_normalize, logits, iterations)), scores.dtype)

    return serve


def unrolled(function, value, times):
    for _ in range(times):
        value = function(value)
    return value


def _normalize(logits):
    logits = logits - ops.logsumexp(logits, axis=-1, keepdims=True)
    return logits - ops.logsumexp(logits, axis=-2, keepdims=True)
