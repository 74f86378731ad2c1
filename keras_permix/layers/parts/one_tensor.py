"""Layers that mix the tokens of one tensor, called as Keras' `MultiHeadAttention` is."""

from typing import Any

import numpy as np

from keras_permix._typing import Tensor
from keras_permix.layers.parts.composite import Composite
from keras_permix.layers.parts.maps import tokens_shape

# Arguments of `MultiHeadAttention`, and what says of a layer that it does not take them.
REFUSALS = {
    "query_mask": "takes one `mask` (batch, tokens) in place of `query_mask`",
    "value_mask": "takes one `mask` (batch, tokens) in place of `value_mask`",
    "key_mask": "takes one `mask` (batch, tokens) in place of `key_mask`",
    "attention_mask": "makes no map of queries by keys that an `attention_mask` could cut; "
    "`mask` (batch, tokens) says which tokens are real",
    "use_causal_mask": "as it was made hears all tokens, so `use_causal_mask` must be False; "
    "`CausalCSP`, `SimpleAttention(causal=True)`, `SoftmaxAttention` and `DampedEMA` can hear the "
    "past alone",
    "return_attention_scores": "returns its result alone, so `return_attention_scores` must be "
    "False; `keras_permix.analysis` looks inside",
}


class OneTensor(Composite):
    """A layer of one tensor of tokens, which may be given again as `value` and as `key`.

    So it stands where `MultiHeadAttention` attends to its own query; `query` is another name of the
    first argument, and a tensor is the same one if it is the same object. Of the other arguments of
    `MultiHeadAttention` it takes those that its class names in `takes`.
    """

    takes: tuple[str, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        for name in ("query", "inputs"):
            if not args and name in kwargs:
                args = (kwargs.pop(name),)
        if not args:
            return super().__call__(**kwargs)  # which says what is missing
        inputs, *others = args
        for _ in ("value", "key"):
            others = others[1:] if others and others[0] is inputs else others
        if others and len(getattr(others[0], "shape", ())) == len(inputs.shape):  # unlike a mask
            self._refuse_other("value", others[0])
        for name in ("value", "key"):
            given = kwargs.pop(name, None)
            if given is not None and given is not inputs:
                self._refuse_other(name, given)
        for name in REFUSALS.keys() & kwargs.keys() - {*self.takes}:
            given = kwargs.pop(name)
            if given is not None and given is not False and not self.does(name):
                raise TypeError(
                    f"{type(self).__name__} {REFUSALS[name]}. Received: {name}={_shown(given)}"
                )
        given = {**dict(zip(("mask", "attention_mask"), others, strict=False)), **kwargs}
        if given.get("mask") is not None:
            self._check_mask(given["mask"], inputs.shape)
        if "attention_mask" in self.takes and given.get("attention_mask") is not None:
            self._check_attention_mask(given["attention_mask"], inputs.shape)
        return super().__call__(inputs, *others, **kwargs)

    def does(self, name: str) -> bool:
        """Whether the layer does, as it was made, what an argument asks for."""
        return False

    def _check_mask(self, mask, shape):
        """Here, since Keras puts lines of its own around what `call` raises."""
        found = shape_of(mask)
        batch, tokens, _ = tokens_shape(type(self).__name__, shape)
        if not (fits(found, (batch, tokens)) or fits(found, tuple(shape[:-1]))):
            raise ValueError(
                "`mask` must have the shape (batch, tokens) of the input, or that of its map. "
                f"Received: mask.shape={found}, inputs.shape={tuple(shape)}"
            )

    def _check_attention_mask(self, mask, shape):
        """The same, of a layer that takes one."""

    def _refuse_other(self, name, given):
        raise TypeError(
            f"{type(self).__name__} mixes the tokens of one tensor: `{name}` must be the first "
            f"argument itself. Received: {name}={_shown(given)}"
        )


def shape_of(mask):
    """The shape of a mask, which may be a list."""
    return tuple(mask.shape if hasattr(mask, "shape") else np.shape(mask))


def fits(found, expected):
    """Whether a mask is as large as expected, or one for all samples; None is an unknown size."""
    pairs = list(zip(found, expected, strict=False))
    if found[:1] == (1,):
        del pairs[0]
    return len(found) == len(expected) and all(a == b for a, b in pairs if None not in (a, b))


def broadcasts(found, expected):
    """Whether a mask, 1 on any axis, stands for one that is as large; None is an unknown size."""
    pairs = zip(found, expected, strict=False)
    return len(found) == len(expected) and all(a in (1, None, b) or b is None for a, b in pairs)


def _shown(given):
    return f"a tensor of shape {tuple(given.shape)}" if hasattr(given, "shape") else repr(given)
