"""Test the arguments that `export` passes to Keras; `tests/export` runs the exported files."""

import importlib.util
import sys

import keras
import numpy as np
import pytest

from keras_permix.layers import CSP, SliceSort
from keras_permix.ops.backend import running
from keras_permix.ops.dispatch import dispatch
from tests.harness import assert_close, to_numpy
from tests.zoo.models import tiny

OURS = running.exports()  # writes ONNX instead of Keras


@pytest.fixture
def keras_calls(monkeypatch):
    """Record calls of Keras' `export`: path, arguments and `dispatch.EXPORTING`."""

    def export(self, filepath, **arguments):
        calls.append((filepath, arguments, dispatch.EXPORTING))
        if str(filepath) == "broken":
            raise RuntimeError("broken")

    calls = []
    monkeypatch.setattr(keras.Model, "export", export)
    return calls


@pytest.mark.parametrize("name", ["CSPViT", "LRATransformer", "SimpleTRON", "SliceGraphormer"])
def test_litert_export_sets_input_signature(name, keras_calls, tmp_path):
    model = tiny(name)
    model.export(tmp_path / "model.tflite", format="litert")
    ((path, arguments, exporting),) = keras_calls
    assert path == str(tmp_path / "model.tflite") and not dispatch.EXPORTING
    assert exporting == (not OURS)
    (signature,) = arguments["input_signature"]
    shapes = keras.tree.map_structure(lambda spec: tuple(spec.shape), signature)
    inputs = model.make_inputs(0, 1)
    assert shapes == keras.tree.map_structure(lambda array: (None, *array.shape[1:]), inputs)


def test_litert_graphs_have_max_atoms_nodes(keras_calls):
    model = tiny("SliceGraphormer", domain=dict(elements=[6], max_atoms=23))
    model.export("model.tflite", format="litert")
    ((_, arguments, _),) = keras_calls
    assert arguments["input_signature"][0]["x"].shape[:2] == (None, 23)


def test_other_format_and_custom_signature_are_unchanged(keras_calls):
    model, mine = tiny(), [keras.InputSpec("float32", (4, 16, 16, 3))]
    model.export("folder", format="torch" if OURS else "tf_saved_model")
    model.export("model.tflite", format="litert", input_signature=mine, some=1)
    (_, first, exporting), (_, second, _) = keras_calls
    assert (first["input_signature"], exporting) == (None, False)
    assert second["input_signature"] is mine and second["some"] == 1


def test_failed_export_resets_exporting(keras_calls):
    with pytest.raises(RuntimeError, match="broken"):
        tiny().export("broken", format="openvino")
    assert not dispatch.EXPORTING


def sorting():
    inputs = keras.Input((6, 8))
    return keras.Model(inputs, SliceSort()(inputs) + CSP()(inputs)), (6, 8)


def truncated():
    model = tiny()
    features = model.get_layer("block_0").output
    return keras.Model(model.input, keras.ops.mean(features, axis=1)), (8, 8, 3)


def nested():
    inputs = keras.Input((8, 8, 3))
    return keras.Model(inputs, keras.layers.Dense(2)(tiny()(inputs))), (8, 8, 3)


@pytest.mark.skipif(not OURS, reason="Keras writes ONNX")
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning")
@pytest.mark.skipif(not importlib.util.find_spec("onnxruntime"), reason="ONNX Runtime is absent")
@pytest.mark.parametrize("make", [sorting, truncated, nested])
def test_onnx_export_of_custom_models(make, tmp_path):
    import onnxruntime

    model, shape = make()
    x = np.random.default_rng(0).integers(0, 256, (3, *shape)).astype("float32")
    OURS.write_onnx(model, keras.ops.convert_to_tensor(x[:2]), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (name,) = [given.name for given in session.get_inputs()]
    assert_close(session.run(None, {name: x})[0], to_numpy(model(x)))


@pytest.mark.skipif(not OURS, reason="Keras writes ONNX")
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning")
@pytest.mark.skipif(not importlib.util.find_spec("onnxruntime"), reason="ONNX Runtime is absent")
def test_onnx_export_with_custom_sequence_length(tmp_path, capsys):
    import onnxruntime

    model = tiny("LRATransformer")
    (block,) = [layer for layer in model.layers if layer.name == "block_0"]
    block.training = True  # a layer in training mode in a model in inference mode
    modes = [part.training for part in model.modules()]
    specs = {name: keras.InputSpec(given.dtype, (None, 5)) for name, given in model.input.items()}
    model.export(tmp_path / "model.onnx", format="onnx", input_signature=[specs])
    assert str(tmp_path / "model.onnx") in capsys.readouterr().out
    assert [part.training for part in model.modules()] == modes
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    texts = {
        name: array[:, :5].astype(model.input[name].dtype)
        for name, array in model.make_inputs(1, 3).items()
    }
    inputs = {found.name: texts[found.name] for found in session.get_inputs()}
    (logits,) = session.run(None, inputs)
    assert_close(logits, model.predict(texts, verbose=0), kind="export")
    specs["mask"] = keras.InputSpec("bool", (None, None))
    with pytest.raises(ValueError, match=r"all sizes except the batch.*\(None, None\)"):
        model.export(tmp_path / "other.onnx", format="onnx", input_signature=[specs])


@pytest.mark.skipif(not OURS, reason="Keras writes SavedModels")
def test_saved_model_on_torch_raises(tmp_path):
    with pytest.raises(ValueError, match="`format` .*onnx.*format='tf_saved_model'"):
        tiny().export(tmp_path / "model")


@pytest.mark.skipif(not OURS, reason="Keras writes ONNX")
def test_missing_onnx_package_raises(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"requires onnxscript: .*keras_permix\[export\]"):
        tiny().export("model.onnx", format="onnx")
