"""Test `dense` on JAX: gradients without copies, second derivatives, several devices."""

import keras
import numpy as np
import pytest

from keras_permix import ops
from keras_permix.ops.backend.plan import Hardware

if keras.config.backend() != "jax":
    pytest.skip("requires JAX", allow_module_level=True)

import jax

from tests.harness import assert_close

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 16, 32)).astype("float32")
KERNELS = [RNG.normal(size=(32, 32)).astype("float32") for _ in range(4)]


def test_gradient_of_residual_stream_has_no_copies():
    def loss(kernels, x):
        for kernel in kernels:
            x = x + ops.dense(keras.ops.tanh(x), kernel)
        return (x**2).sum()

    program = jax.jit(jax.grad(loss)).lower(KERNELS, X).compile().as_text()
    assert " fusion(" in program and " copy(" not in program


def test_second_derivatives():
    def loss(kernel):
        return (keras.ops.tanh(ops.dense(X[:1, :2, :3], kernel)) ** 2).sum()

    def plain(kernel):
        return (keras.ops.tanh(X[:1, :2, :3] @ kernel) ** 2).sum()

    kernel = KERNELS[0][:3, :4]
    assert_close(jax.hessian(loss)(kernel), jax.hessian(plain)(kernel))


def test_several_devices_use_reference(monkeypatch):
    two = Hardware("cpu", devices=2)
    monkeypatch.setattr(ops.dispatch.dispatch.RUNTIME, "hardware", lambda x: two)
    explanation = ops.explain("dense", X, KERNELS[0])
    assert explanation.chosen == "reference"
    assert "tokens on one device" in explanation.objections["flat"]
