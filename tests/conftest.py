"""What every test starts from."""

import keras
import pytest

from tests.backends import compile_soon, forget_compiled, keep_compiled

# Folders whose programs are compiled as users compile them: those that compare bits, and time.
AS_USERS_DO = ("ops", "bench", "accelerators")


@pytest.fixture(autouse=True, scope="session")
def _compiled_once(tmp_path_factory):
    """A program that two tests of one process have in common is compiled for the first."""
    keep_compiled(tmp_path_factory.mktemp("compiled"))


@pytest.fixture(autouse=True, scope="module")
def _fresh_session(request):
    """Graphs, compiled functions and layer names of one file do not outlive it."""
    compile_soon(request.node.path.relative_to(request.config.rootpath).parts[1] not in AS_USERS_DO)
    yield
    keras.utils.clear_session()
    forget_compiled()


@pytest.fixture(autouse=True)
def _same_seed():
    """Weights and data do not depend on which tests ran before."""
    keras.utils.set_random_seed(0)
