"""Test residuals, norms, spectra and the bound of Theorem 1."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from keras_permix.analysis import (
    plot_rank_residual,
    plot_residual_bound,
    plot_singular_spectrum,
    rank_residual,
    residual_bound,
    singular_spectrum,
    token_norm,
)
from keras_permix.layers import CSP
from tests.harness import assert_close, load_golden

GOLDEN = load_golden("analysis")
X = GOLDEN["X"][None]
RNG = np.random.default_rng(0)
TOKENS = RNG.normal(size=(3, 12, 6)).astype("float32")


def csp_stack(num_layers=5, **arguments):
    """Return the tokens before and after each layer of a stack of CSP, and its kernels."""
    token_maps, kernels = [TOKENS], []
    for _ in range(num_layers):
        layer = CSP(use_output_projection=False, **arguments)
        token_maps.append(layer(token_maps[-1]))
        kernels.append(layer.value_dense.kernel)
    return token_maps, kernels


def test_residual_and_norms_match_golden():
    residual = rank_residual(X)
    assert_close(residual[0], GOLDEN["residual_mean"], "float64", "analysis")
    assert_close(token_norm(residual)[0], GOLDEN["residual_norm_mean"], "float64", "analysis")
    assert_close(token_norm(X)[0], GOLDEN["norm_1inf"], "float64", "analysis")


def test_spectrum_matches_golden():
    assert_close(singular_spectrum(X)[0], GOLDEN["spectrum"], "float64", "analysis")


def test_residual_of_equal_tokens_is_zero():
    equal = np.ones((2, 5, 1)) * RNG.normal(size=(2, 1, 3))
    assert_close(rank_residual(equal), np.zeros((2, 5, 3)), "float64", "analysis")
    assert_close(rank_residual(TOKENS + equal[0, 0, 0]), rank_residual(TOKENS))


@pytest.mark.parametrize("group_size", [1, 2, None])
def test_bound_holds_for_csp_stack(group_size):
    token_maps, kernels = csp_stack(group_size=group_size)
    bounds = residual_bound(token_maps[0], kernels)
    norms = np.array([token_norm(rank_residual(tokens)) for tokens in token_maps])
    assert bounds.shape == norms.shape == (6, 3)
    assert_close(bounds[0], norms[0])
    assert (norms[1:] < bounds[1:]).all()


def test_bound_matches_theorem():
    one_column = np.outer(np.ones(6), np.eye(6)[0])  # its 1-norm is 6, its ∞-norm 1
    kernels = [2 * np.eye(6), one_column, np.eye(6)]
    start = token_norm(rank_residual(TOKENS))
    bounds = residual_bound(TOKENS, kernels, lipschitz=0.5)
    for layers, beta in enumerate([0, 2, 6, 6]):
        factor = 6 ** (layers / 2) * (0.5 * beta) ** layers
        assert_close(bounds[layers], factor * start, "float64", "analysis")


def test_plots_show_batch_means():
    token_maps, kernels = csp_stack()
    residuals, bound, spectrum = Figure().subplots(1, 3)
    plot_rank_residual(residuals, token_maps, label="csp")
    shares = [token_norm(rank_residual(t)) / token_norm(t) for t in token_maps]
    assert_close(residuals.lines[0].get_ydata(), np.mean(shares, axis=1))
    assert residuals.lines[0].get_label() == "csp"

    bounds = residual_bound(TOKENS, kernels)
    plot_residual_bound(bound, token_maps, bounds)
    measured, bounding = (line.get_ydata() for line in bound.lines)
    assert_close(measured, [token_norm(rank_residual(tokens)).mean() for tokens in token_maps])
    assert_close(bounding, bounds.mean(axis=1))

    plot_singular_spectrum(spectrum, TOKENS)
    values = np.linalg.svd(TOKENS, compute_uv=False)
    assert_close(spectrum.lines[0].get_ydata(), (values / values[:, :1]).mean(axis=0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: singular_spectrum(X[0]), r"`tokens` must have the shape.*\(8, 4\)"),
        (lambda: residual_bound(X, [np.eye(3)]), r"kernel.shape=\(3, 3\), channels=4"),
    ],
)
def test_wrong_argument_raises(call, message):
    with pytest.raises(ValueError, match=message):
        call()
