"""What every test starts from."""

import keras
import pytest


@pytest.fixture(autouse=True)
def _same_seed():
    """Weights and data do not depend on which tests ran before."""
    keras.utils.set_random_seed(0)


@pytest.fixture(autouse=True, scope="module")
def _fresh_session():
    """Graphs and layer names of one file do not outlive it."""
    yield
    keras.utils.clear_session()
