"""Tolerances of comparisons, by kind of result and dtype of the computation."""

# Permutations do not round. In float32, outputs of a model agree within 1e-4 between backends and
# after saving and loading.
TOLERANCES = {
    "analysis": {"float64": dict(rtol=1e-12, atol=1e-12)},
    "op": {"float32": dict(rtol=0.0, atol=0.0)},
    # Sums of hundreds of terms, some of them by FFT.
    "ema": {
        "float32": dict(rtol=1e-4, atol=1e-4),
        "float64": dict(rtol=1e-11, atol=1e-11),
    },
    "layer": {
        "float64": dict(rtol=1e-11, atol=1e-11),
        "float32": dict(rtol=1e-4, atol=1e-5),
        "float16": dict(rtol=1e-2, atol=1e-2),
        "bfloat16": dict(rtol=5e-2, atol=5e-2),
    },
    # A soft permutation at a low temperature, compared with the hard one.
    "limit": {"float32": dict(rtol=0.0, atol=1e-2)},
    "model": {
        "float32": dict(rtol=0.0, atol=1e-4),
        "float16": dict(rtol=2e-2, atol=2e-2),
        "bfloat16": dict(rtol=1e-1, atol=1e-1),
        "int8": dict(rtol=1e-1, atol=1e-1),
    },
    # A sequence in pieces, compared with the whole sequence.
    "stream": {"float32": dict(rtol=1e-5, atol=1e-5)},
    # An exported model in another runtime.
    "export": {"float32": dict(rtol=1e-4, atol=2e-4)},
}
