"""Export the model of the demo page to ONNX, and write its metadata.

    KERAS_BACKEND=torch python docs/site/export.py FOLDER

The ONNX file returns the logits, and the values of every mixer before and after its permutation. A
permutation does not round, so the page finds the origin of a value by equality.
"""

import json
import logging
import shutil
import sys
from pathlib import Path

import keras
import torch

from keras_permix.zoo import CSPViT

PRESET = "cifar10_small"
EXAMPLES = Path(__file__).parents[2] / "examples" / "images"
PICTURES = ("cat.png", "ship.png", "airplane.png", "frog.png", "automobile.png", "truck.png")
FREE = torch.export.Dim.DYNAMIC


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    model = CSPViT.from_preset(PRESET)
    config = model.get_config()
    said = {
        "labels": model.labels,
        "layers": config["num_layers"],
        "side": config["image_size"] // config["patch_size"],
        "channels": config["hidden_dim"],
        "pictures": PICTURES,
    }
    (folder / "model.json").write_text(json.dumps(said, indent=1), encoding="utf-8")
    for name in PICTURES:
        shutil.copy(EXAMPLES / name, folder)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # torchvision is not needed
    # Keras' export has no dynamic image sizes on PyTorch. Any example size other than the model's
    # works, since the model resizes images, as in `permix predict`.
    torch.onnx.export(
        watched(model).eval(),
        (torch.zeros((1, 48, 40, 3), dtype=torch.uint8),),
        folder / "model.onnx",
        input_names=["images"],
        output_names=["logits", "before", "after"],
        dynamic_shapes=(({1: FREE, 2: FREE},),),
        external_data=False,
        dynamo=True,
        verbose=False,
    )


def watched(model):
    """Add two outputs to a model: the values of its mixers before and after the permutation."""
    blocks = [
        model.get_layer(f"block_{index}") for index in range(model.get_config()["num_layers"])
    ]
    before, after = zip(*(Values(block)(block.input) for block in blocks), strict=True)
    layers = [keras.ops.concatenate(values) for values in (before, after)]
    return keras.Model(model.input, [model.output, *layers])


class Values(keras.layers.Layer):
    """Return the values that the mixer of a block permutes, before and after."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def call(self, tokens):
        values = self.block.mixer.value_dense(self.block.mixer_norm(tokens))
        return values, self.block.mixer.mix(values)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
