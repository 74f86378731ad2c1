"""An op as one node of a functional model."""

from collections.abc import Callable
from typing import Any, TypeVar

import keras

OPS: dict[str, Callable[..., Any]] = {}  # public functions by name
Op = TypeVar("Op", bound=Callable[..., Any])


def op(function: Op) -> Op:
    """Let models and `explain` find the public function of an op, which is dispatched, by name."""
    OPS[function.__name__] = function
    return function


@keras.saving.register_keras_serializable("keras_permix")
class TokenOperation(keras.Operation):
    """An op as one node of a functional model: dispatched when it runs, not when it is drawn."""

    def __init__(self, op, implementation, options, like=0, shape=None, name=None):
        super().__init__(name=name)
        self.op = op
        self.implementation = implementation
        self.options = options
        self.like = like
        self.shape = shape

    def call(self, *arrays, mask=None):
        given = {} if mask is None else {"mask": mask}
        return OPS[self.op](*arrays, **given, implementation=self.implementation, **self.options)

    def compute_output_spec(self, *arrays, mask=None):
        like = arrays[self.like]
        return keras.KerasTensor(self.shape or like.shape, like.dtype)

    def get_config(self):
        return {
            "op": self.op,
            "implementation": self.implementation,
            "options": self.options,
            "like": self.like,
            "shape": self.shape,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**keras.saving.deserialize_keras_object(config))


def is_symbolic(x):
    return isinstance(x, keras.KerasTensor)
