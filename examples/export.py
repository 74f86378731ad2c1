"""Export a pretrained model to a file that runs without this package and without Keras.

    KERAS_BACKEND=torch python examples/export.py [--out build/export]

On PyTorch, the script writes a program of `torch.export`. It also writes an ONNX file if `onnx`,
`onnxscript` and `onnxruntime` are installed. On JAX and TensorFlow, it writes a SavedModel, which
requires TensorFlow. Each file is loaded and run with one image and with several. Its logits are
compared with the model's, and its time with that of `predict`.
"""

import argparse
import statistics
import time
from importlib.util import find_spec
from pathlib import Path

from keras_permix.data import read_image
from keras_permix.zoo import CSPViT

import keras
import numpy as np

IMAGES = Path(__file__).parent / "images"
NAMES = ("airplane", "automobile", "cat", "frog", "ship", "truck")


def saved_model(model, folder):
    """Export a SavedModel and return a function that runs it."""
    import tensorflow as tf

    model.export(folder / "saved_model", verbose=False)
    loaded = tf.saved_model.load(str(folder / "saved_model"))  # keeps its variables alive
    return lambda images: loaded.serve(tf.constant(images, model.input.dtype)).numpy()


def torch_program(model, folder):
    """Export a program with a dynamic batch and return a function that runs it."""
    import torch

    example = torch.zeros(2, 32, 32, 3)
    program = torch.export.export(
        model.eval(), (example,), dynamic_shapes=(({0: torch.export.Dim.DYNAMIC},),), strict=False
    )
    torch.export.save(program, folder / "model.pt2")
    run = torch.export.load(folder / "model.pt2").module()
    return lambda images: run(torch.from_numpy(images.astype("float32"))).detach().numpy()


def onnx_file(model, folder):
    """Export an ONNX file and return a function that runs it."""
    import onnxruntime

    path = folder / "model.onnx"
    model.export(path, format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(path)
    (asked,) = session.get_inputs()
    return lambda images: session.run(None, {asked.name: images.astype("float32")})[0]


def ways():
    """Return the exports that this backend and the installed packages support."""
    if keras.backend.backend() == "torch":
        found = {"torch.export": torch_program}
        if all(map(find_spec, ("onnx", "onnxruntime", "onnxscript"))):
            found["ONNX"] = onnx_file
        return found
    return {"SavedModel": saved_model} if find_spec("tensorflow") else {}


def milliseconds(functions, argument, rounds=9):
    """Return the median time of each function. Calls alternate between the functions."""
    times = [[] for _ in functions]
    for _ in range(rounds):
        for function, taken in zip(functions, times, strict=True):
            start = time.perf_counter()
            function(argument)
            taken.append(time.perf_counter() - start)
    return [1e3 * statistics.median(taken) for taken in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/export"), help="folder to write")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    model = CSPViT.from_preset("cifar10_small")
    images = np.stack([read_image(IMAGES / f"{name}.png") for name in NAMES])
    expected = model.predict(images, verbose=0)
    if not (found := ways()):
        raise SystemExit("SavedModel requires TensorFlow: pip install tensorflow")
    for name, export in found.items():
        run = export(model, arguments.out)
        answers = np.concatenate([run(images[:1]), run(images[1:])])
        error = np.abs(answers - expected).max()
        own, its = milliseconds([lambda x: model.predict(x, verbose=0), run], images)
        print(f"{name}: logits differ by {error:.0e}, {its / own:.2f} times the time of `predict`")
    for (label, probability), *_ in model.decode_predictions(answers):
        print(f"{label}: {100 * probability:.0f} %")


if __name__ == "__main__":
    main()
