# make demo   the main job on JAX, in an environment of its own
# make test   every test on JAX, TensorFlow and PyTorch, in an environment of its own
# make lint   ruff;  make wheel  builds into dist/;  make clean  removes environments and caches
#
# An environment is made once, and anew when pyproject.toml changes. Extra arguments of the tests:
# make test ARGS="torch tests/layers -x"

PYTHON ?= python3
ARGS ?=

# PyTorch is installed first and by itself, so that nothing else chooses its build. On Linux the
# default build brings CUDA along; for the much smaller CPU build, name PyTorch's CPU index in pip's
# own settings (PIP_EXTRA_INDEX_URL or pip.conf).
TORCH ?= torch==2.13.0
# TensorFlow's CPU build has a name of its own where the default one brings CUDA along.
TENSORFLOW ?= $(if $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m)),tensorflow-cpu,tensorflow)

DEMO := .venv-demo
TEST := .venv-test
PIP := bin/python -m pip --disable-pip-version-check install --quiet

.PHONY: demo test lint wheel clean

demo: $(DEMO)/.installed
	KERAS_BACKEND=jax $(DEMO)/bin/python examples/quickstart.py

test: $(TEST)/.installed
	$(TEST)/bin/python -m tests $(ARGS)

lint: $(TEST)/.installed
	$(TEST)/bin/ruff check .

wheel: $(TEST)/.installed
	$(TEST)/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .

$(DEMO)/.installed: pyproject.toml
	@echo "$(DEMO) 1/2: making the environment"
	@$(PYTHON) -m venv --clear $(DEMO)
	@echo "$(DEMO) 2/2: installing keras_permix with JAX (a minute or two)"
	@$(DEMO)/$(PIP) --editable ".[jax,train]"
	@touch $@

$(TEST)/.installed: pyproject.toml
	@echo "$(TEST) 1/4: making the environment"
	@$(PYTHON) -m venv --clear $(TEST)
	@echo "$(TEST) 2/4: installing $(TORCH) (a minute or more)"
	@$(TEST)/$(PIP) "$(TORCH)"
	@echo "$(TEST) 3/4: installing $(TENSORFLOW) (a minute or more)"
	@$(TEST)/$(PIP) "$(TENSORFLOW)"
	@echo "$(TEST) 4/4: installing keras_permix with JAX and what the tests need (a minute or more)"
	@$(TEST)/$(PIP) --editable ".[jax,test]"
	@touch $@

clean:
	rm -rf $(DEMO) $(TEST) dist .pytest_cache .ruff_cache .hypothesis
