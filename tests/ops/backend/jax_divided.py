"""Compile ops for a batch sharded over eight CPU devices, and print the collectives.

python -m tests.ops.backend.jax_divided
"""

import json
import re

COLLECTIVES = r"all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter"


def main():
    import jax
    import numpy as np

    from keras_permix import ops

    steps = tuple(range(1, 5))
    functions = {
        "channel_shift": lambda x, mask: ops.channel_shift(x, steps, mask=mask),
        "pairs": lambda x, mask: ops.csp(x, steps, 2, mask=mask),
        "groups": lambda x, mask: ops.csp(x, steps, 4, mask=mask),
        "slice_sort": lambda x, mask: ops.slice_sort(x, mask=mask),
        "max_exchange": lambda x, mask: ops.max_exchange(x, mask=mask),
    }
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("batch",))
    divided = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    x = jax.ShapeDtypeStruct((16, 8, 4), "float32", sharding=divided)
    mask = jax.ShapeDtypeStruct((16, 8), "bool", sharding=divided)
    for name, function in functions.items():
        for masks in ((None,), (mask,)):
            found = _exchanged(function, x, *masks)
            print(json.dumps({"op": name, "masked": masks != (None,), "exchanged": found}))


def _exchanged(function, x, mask):
    import jax

    def both(x, cotangent, mask):
        value, pull = jax.vjp(lambda x: function(x, mask), x)
        return value, pull(cotangent)[0]

    program = jax.jit(both).lower(x, x, mask).compile().as_text()
    return sorted(set(re.findall(COLLECTIVES, program)))


if __name__ == "__main__":
    main()
