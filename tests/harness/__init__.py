"""Checks and helpers that the tests share. The `check_*` functions assert."""

from tests.harness.layers import check_empty, check_extended, check_layer, functional
from tests.harness.models import check_model, check_precision, fit_classifier, fit_once
from tests.harness.other_backend import (
    BACKENDS,
    check_models_elsewhere,
    check_other_backend,
    other_backend,
)
from tests.harness.presets import check_preset
from tests.harness.values import (
    ROOT,
    assert_close,
    assert_same,
    exported,
    load_golden,
    load_module,
    needs_cpu,
    to_numpy,
)

__all__ = [
    "BACKENDS",
    "ROOT",
    "assert_close",
    "assert_same",
    "check_empty",
    "check_extended",
    "check_layer",
    "check_model",
    "check_models_elsewhere",
    "check_other_backend",
    "check_precision",
    "check_preset",
    "exported",
    "fit_classifier",
    "fit_once",
    "functional",
    "load_golden",
    "load_module",
    "needs_cpu",
    "other_backend",
    "to_numpy",
]
