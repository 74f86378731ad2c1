"""Choose the tests of each backend, and prepare each test."""

import gc
import os
import zlib
from itertools import compress

import keras
import pytest

from keras_permix.ops.backend import running
from tests.__main__ import AS_USERS_DO, SHARE
from tests.backends import forget_compiled, keep_compiled

# Prefixes of test ids that need no backend, or give the same result on all: `python -m tests` runs
# them on one backend.
ONCE = (
    "tests/bench/test_bench.py::test_a_wrong_operator",
    "tests/bench/test_bench.py::test_errors",
    "tests/bench/test_bench.py::test_layers_and",
    "tests/bench/test_bench.py::test_long_texts",
    "tests/bench/test_bench.py::test_models",
    "tests/bench/test_bench.py::test_ops_are",
    "tests/bench/test_bench.py::test_the_allocator",
    "tests/cli/test_images.py",
    "tests/cli/test_presets.py::test_presets_of_one_backend_on_every_backend",
    "tests/data/graphs",
    "tests/data/images",
    "tests/data/lra",
    "tests/data/text",
    "tests/lra",
    "tests/ops/test_golden.py::test_schedules",
    "tests/ops/test_implementations.py",
    "tests/tasks",
    "tests/test_examples.py::test_anneal_sinkhorn",
    "tests/test_examples.py::test_another_size",
    "tests/test_examples.py::test_distill",
    "tests/test_examples.py::test_export",
    "tests/test_examples.py::test_features",
    "tests/test_examples.py::test_fine_tune",
    "tests/test_examples.py::test_generate_text",
    "tests/test_examples.py::test_look_inside",
    "tests/test_examples.py::test_mixer_pictures",
    "tests/test_examples.py::test_mixing_figures",
    "tests/test_examples.py::test_molecules",
    "tests/test_examples.py::test_quantize",
    "tests/test_examples.py::test_quickstart",  # on JAX it is `make demo`
    "tests/test_examples.py::test_ray_train",
    "tests/test_examples.py::test_replace_attention",
    "tests/test_examples.py::test_swap_mixer",
    "tests/test_examples.py::test_simpletron_from_bert",
    "tests/test_examples.py::test_tpu_fit",
    "tests/test_examples.py::test_tutorial",
    "tests/test_examples.py::test_ways_to_train",
    "tests/test_imports.py::test_import_is_fast",
    "tests/test_readme.py",
    "tests/tools/test_make_minilm.py",
    "tests/tools/test_make_qm9.py",
    "tests/tools/test_publish.py",
    "tests/training/test_checkpoints.py",
    "tests/training/test_distribute.py::test_batch",
    "tests/training/test_distribute.py::test_every_kernel",
    "tests/training/test_own_targets.py",
    "tests/training/test_recipe.py",
    "tests/training/test_sweep.py",
    "tests/training/test_train.py",
    "tests/zoo/presets/test_assets.py",
    "tests/zoo/presets/test_errors.py",
    "tests/zoo/presets/test_handles.py",
    "tests/zoo/presets/test_loading.py",
    "tests/zoo/presets/test_saving.py",
    "tests/zoo/test_vit.py::test_parameters_are_the_papers",
)
# Exceptions: tests that augment with Keras, and tests that train.
NOT_ONCE = (
    "tests/data/images/test_augment.py",
    "tests/data/text/test_buckets.py",
    "tests/training/test_checkpoints.py::test_run_that_fell_back_ends_the_same",
    "tests/training/test_train.py::test_command_does_what_the_function_does",
    "tests/training/test_train.py::test_nan_stops_at_once",
    "tests/zoo/presets/test_loading.py::test_jax_skips_initialization",
    "tests/zoo/presets/test_loading.py::test_loaded_model_with_dropout_trains",
)

# Prefixes of test ids, and words in their names, that run on every backend: they compare numbers
# with a reference, or are about backends.
EVERYWHERE = (
    "tests/export",  # each backend has its own cases
    "tests/ops",
    "tests/test_backend.py",
    "tests/test_imports.py",
    "tests/zoo/presets/test_presets.py::test_a_trained",
    "tests/zoo/presets/test_presets.py::test_the_test",
)
WORDS = ("authors", "golden", "numpy", "oracle")
# Exceptions: tests of ops that do not permute, or with a hundred similar cases.
NOT_EVERYWHERE = (
    "tests/ops/test_damped_ema.py",
    "tests/ops/test_masks.py",
    "tests/ops/test_simple_attention.py",
    "tests/ops/test_sinkhorn.py",
)


def pytest_report_header():
    """Report the version and the backend of Keras."""
    return f"keras: {keras.__version__} on {keras.config.backend()}"


def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.nodeid.startswith(ONCE) and not item.nodeid.startswith(NOT_ONCE):
            item.add_marker("once")
        if item.nodeid.startswith(AS_USERS_DO):
            item.add_marker("as_users_do")
        is_numeric = item.nodeid.startswith(EVERYWHERE) or any(word in item.name for word in WORDS)
        if is_numeric and not item.nodeid.startswith(NOT_EVERYWHERE):
            item.add_marker("everywhere")
    share, shares = map(int, os.environ.get(SHARE, "0/1").split("/"))
    chosen = [share_of(item, shares) in (share, None) for item in items]
    config.hook.pytest_deselected(
        items=[item for item, is_chosen in zip(items, chosen, strict=True) if not is_chosen]
    )
    items[:] = compress(items, chosen)


def share_of(item, shares):
    """Return the number of the share that holds a test, or `None` if all do.

    A test that some backends skip is in all shares, lest it is in one of a backend that skips it.
    """
    if any(map(item.get_closest_marker, ("once", "everywhere", "skipif"))):
        return None
    # The last backend, on which tests are fastest, takes two of the parts.
    return min(zlib.crc32(item.nodeid.encode()) % (shares + 1), shares - 1)


def pytest_collection_finish():
    """Exempt imported modules from garbage collection, which saves 0.25 s per collection."""
    keras.utils.set_random_seed(0)  # imports TensorFlow if it is installed
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _compiled_once(tmp_path_factory):
    """Share compiled programs between the tests of all workers."""
    folder = tmp_path_factory.getbasetemp()
    keep_compiled((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "compiled")


@pytest.fixture(autouse=True, scope="session")
def _products_are_exact():
    """Multiply float32 in full precision on GPUs and TPUs, which comparisons need."""
    if running.module("runtime").chip():
        with running.module("runtime").full_precision():
            yield
    else:
        yield


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    """Use a temporary cache folder instead of the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERAS_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(autouse=True, scope="module")
def _fresh_session():
    """Free graphs, compiled functions and layer names after each file."""
    yield
    keras.utils.clear_session()
    forget_compiled()
    gc.freeze()


@pytest.fixture(autouse=True)
def _same_start():
    """Set the seed, so that tests do not depend on their order."""
    keras.utils.set_random_seed(0)
