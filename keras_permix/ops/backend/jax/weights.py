"""What Keras on JAX loses of a model where a step of it fails, or the next one begins."""

import contextlib

from keras import ops


@contextlib.contextmanager
def weights_kept(model):
    """Give a model back what Keras has taken out of it for a step that does not end.

    `fit`, `evaluate` and `predict` empty its variables before the first step and fill them after
    the last. An error between, such as one for inputs of another shape or Ctrl-C, leaves them so.
    And `fit` leaves a moving average and the weight that it became one array, which the next step
    would delete twice.
    """
    optimizer = getattr(model, "optimizer", None)
    variables = [
        *model.variables,
        *model.metrics_variables,
        *(optimizer.variables if optimizer else ()),
    ]
    before = [(variable, variable._value) for variable in variables]
    try:
        yield
    except BaseException:
        model.jax_state_sync()  # of the last whole step, where there was one
        for variable, value in before:
            if variable._value is None and value is not None and not value.is_deleted():
                variable.assign(value)
        raise
    # A loss that is scaled has an optimizer within the optimizer.
    if optimizer and getattr(optimizer, "inner_optimizer", optimizer).use_ema:
        for variable in model.trainable_variables:
            variable.assign(ops.copy(variable.value))
