"""Products on JAX for one CPU, whose gradients XLA transposes no tensor of tokens for."""

import keras
import numpy as np
import pytest

from keras_permix import ops
from keras_permix.ops.backend.plan import Hardware

if keras.config.backend() != "jax":
    pytest.skip("JAX alone", allow_module_level=True)

import jax

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 16, 32)).astype("float32")
KERNELS = [RNG.normal(size=(32, 32)).astype("float32") for _ in range(4)]


def test_nothing_is_copied_along_a_residual_stream():
    def loss(kernels, x):
        for kernel in kernels:
            x = x + ops.dense(keras.ops.tanh(x), kernel)
        return (x**2).sum()

    program = jax.jit(jax.grad(loss)).lower(KERNELS, X).compile().as_text()
    assert " fusion(" in program and " copy(" not in program


def test_derivatives_to_the_second_order():
    def loss(kernel):
        return (keras.ops.tanh(ops.dense(X[:1, :2, :3], kernel)) ** 2).sum()

    def plain(kernel):
        return (keras.ops.tanh(X[:1, :2, :3] @ kernel) ** 2).sum()

    kernel = KERNELS[0][:3, :4]
    np.testing.assert_allclose(jax.hessian(loss)(kernel), jax.hessian(plain)(kernel), atol=1e-5)


def test_several_devices_divide_it_as_keras_has_it(monkeypatch):
    two = Hardware("cpu", devices=2)
    monkeypatch.setattr(ops.dispatch.dispatch.RUNTIME, "hardware", lambda x: two)
    said = ops.explain("dense", X, KERNELS[0])
    assert said.chosen == "reference" and "tokens on one device" in said.objections["flat"]
