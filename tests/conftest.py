"""What every test starts from."""

import gc
import os
import zlib
from itertools import compress

import keras
import pytest

from keras_permix.ops.backend import running
from tests.__main__ import AS_USERS_DO, TURN
from tests.backends import compile_soon, forget_compiled, keep_compiled

# Tests that need no backend, or find the same on all, by how their names begin: `python -m tests`
# runs them on one.
ONCE = (
    "tests/bench/test_bench.py::test_a_wrong_operator",
    "tests/bench/test_bench.py::test_errors",
    "tests/bench/test_bench.py::test_layers_and",
    "tests/bench/test_bench.py::test_long_texts",
    "tests/bench/test_bench.py::test_models",
    "tests/bench/test_bench.py::test_the_allocator",
    "tests/cli/test_presets.py::test_presets_of_one_backend_on_every_backend",
    "tests/data/graphs",
    "tests/data/images",
    "tests/data/lra",
    "tests/data/text",
    "tests/lra",
    "tests/ops/test_golden.py::test_schedules",
    "tests/ops/test_rows.py",
    "tests/test_examples.py::test_anneal_sinkhorn",
    "tests/test_examples.py::test_another_size",
    "tests/test_examples.py::test_export",
    "tests/test_examples.py::test_features",
    "tests/test_examples.py::test_fine_tune",
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
    "tests/test_examples.py::test_ways_to_train",
    "tests/test_readme.py::test_docstring_example_runs[keras_permix.analysis",
    "tests/test_readme.py::test_docstring_example_runs[keras_permix.bench",
    "tests/test_readme.py::test_docstring_example_runs[keras_permix.cli",
    "tests/test_readme.py::test_docstring_example_runs[keras_permix.data",
    "tests/test_readme.py::test_docstring_example_runs[keras_permix.training",
    "tests/test_readme.py::test_docstring_example_runs[keras_permix.zoo",
    "tests/test_readme.py::test_links",
    "tests/test_readme.py::test_commands_exist",
    "tests/test_readme.py::test_the_readme",
    "tests/tools/test_make_minilm.py",
    "tests/tools/test_make_qm9.py",
    "tests/tools/test_publish.py",
    "tests/tools/test_teach_simple.py",
    "tests/training/test_checkpoints.py",
    "tests/training/test_distribute.py::test_batch",
    "tests/training/test_distribute.py::test_every_kernel",
    "tests/training/test_recipe.py",
    "tests/training/test_train.py",
    "tests/zoo/presets/test_assets.py",
    "tests/zoo/presets/test_errors.py",
    "tests/zoo/presets/test_handles.py",
    "tests/zoo/presets/test_loading.py",
    "tests/zoo/presets/test_saving.py",
    "tests/zoo/test_vit.py::test_parameters_are_the_papers",
)
# Of these, what takes a quarter of a minute or more: it takes turns, a third with three backends.
SELDOM = (
    "tests/cli/test_command.py::test_an_output_that_is_closed",
    "tests/cli/test_presets.py::test_presets_of_one_backend_on_every_backend",
    "tests/test_examples.py",
    "tests/training/test_train.py::test_stored_score_is_measured_again",
)
# But for those that augment, in Keras, and those that train.
EACH = (
    "tests/data/images/test_augment.py",
    "tests/training/test_checkpoints.py::test_run_that_fell_back_ends_the_same",
    "tests/training/test_train.py::test_command_does_what_the_function_does",
    "tests/training/test_train.py::test_nan_stops_at_once",
)

# What holds a backend to others' numbers, or to the bit, or is about backends, by how names begin
# or by a word in them: it runs on each, and the rest take turns.
EVERYWHERE = (
    "tests/export",  # whose cases are each backend's own
    "tests/ops",
    "tests/test_backend.py",
    "tests/test_imports.py",
    "tests/zoo/presets/test_presets.py::test_a_trained",
    "tests/zoo/presets/test_presets.py::test_the_test",
)
WORDS = ("authors", "golden", "numpy", "oracle")
# But for these, which permute nothing, or have a hundred cases of a kind.
TURNS = (
    "tests/ops/test_damped_ema.py",
    "tests/ops/test_masks.py",
    "tests/ops/test_simple_attention.py",
    "tests/ops/test_sinkhorn.py",
)


def pytest_report_header():
    """Which of the Keras versions that may be installed side by side this run uses."""
    return f"keras: {keras.__version__} on {keras.config.backend()}"


def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.nodeid.startswith(ONCE) and not item.nodeid.startswith(EACH):
            item.add_marker("once")
        if item.nodeid.startswith(AS_USERS_DO):
            item.add_marker("as_users_do")
        is_asked = item.nodeid.startswith(EVERYWHERE) or any(word in item.name for word in WORDS)
        if is_asked and not item.nodeid.startswith(TURNS):
            item.add_marker("everywhere")
    turn, turns = map(int, os.environ.get(TURN, "0/1").split("/"))
    chosen = [turn_of(item, turns) in (turn, None) for item in items]
    others = [item for item, ours in zip(items, chosen, strict=True) if not ours]
    config.hook.pytest_deselected(items=others)
    items[:] = compress(items, chosen)


def turn_of(item, turns):
    """In which of so many turns a test runs; `None`: in each."""
    is_once = item.get_closest_marker("once") and not item.nodeid.startswith(SELDOM)
    if is_once or item.get_closest_marker("everywhere"):
        return None
    return zlib.crc32(item.nodeid.encode()) % turns


def pytest_collection_finish():
    """What is imported stays, and no garbage is looked for in it: 0.25 s for each time."""
    keras.utils.set_random_seed(0)  # It imports TensorFlow where that is installed.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _compiled_once(tmp_path_factory):
    """A program that two tests have in common is compiled for the first, in whichever worker."""
    folder = tmp_path_factory.getbasetemp()
    keep_compiled((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "compiled")


@pytest.fixture(autouse=True, scope="session")
def _products_are_exact():
    """On a GPU or TPU float32 is multiplied as float32, or a hundred comparisons fail."""
    if running.module("runtime").chip():
        with running.module("runtime").full_precision():
            yield
    else:
        yield


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    """What tests keep in a cache does not lie in that of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERAS_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(autouse=True, scope="module")
def _fresh_session():
    """Graphs, compiled functions and layer names of one file do not outlive it."""
    yield
    keras.utils.clear_session()
    forget_compiled()
    gc.freeze()  # what is left stays, too


@pytest.fixture(autouse=True)
def _same_start(request):
    """Weights and data do not depend on which tests ran before, and hardly a program."""
    keras.utils.set_random_seed(0)
    compile_soon(not request.node.get_closest_marker("as_users_do"))
