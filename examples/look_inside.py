"""Draw how a pretrained model of the zoo mixes tokens.

    python examples/look_inside.py [--preset cspvit/cifar10_small] [--out FOLDER] [--images 16]

The upper row shows one mixing map per block, averaged over channels or heads, and the product of
all maps. The lower row shows the singular values of the tokens after each block, and the share that
remains after subtracting the mean token. Models for images of 32 pixels get test images of
CIFAR-10, others generated inputs.
"""

import argparse
from pathlib import Path

from keras_permix.analysis import look_inside
from keras_permix.data import load_sheet
from keras_permix.zoo import ZooModel

IMAGES = Path(__file__).parent / "images" / "cifar10_test.png"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="cspvit/cifar10_small", help="class/preset")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the picture")
    parser.add_argument("--images", type=int, default=16, help="how many test images to use")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    model = ZooModel.from_preset(arguments.preset)
    inputs = None
    if model.describe_input().get("size") == 32 and model.input_shape[-1] == 3:
        inputs = load_sheet(IMAGES)[0][: arguments.images]
    path = arguments.out / f"{arguments.preset.replace('/', '_')}.png"
    inside = look_inside(model, inputs, picture=path)
    for one in inside.maps:
        stays = abs(one.map).trace() / abs(one.map).sum()
        print(f"{one.name}: {one.kind}, {100 * stays:.1f} % of the weights are on the diagonal")
    for block, residual in enumerate(inside.residuals):
        print(f"after block {block}: residual {residual:.2f}, relative to the tokens")
    print(*inside.missing, sep="\n", end="\n" * bool(inside.missing))
    print(f"picture: {path}")


if __name__ == "__main__":
    main()
