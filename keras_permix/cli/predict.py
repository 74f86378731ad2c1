"""`permix predict`: labels of images, with probabilities."""

from pathlib import Path


def add_parser(subparsers):
    parser = subparsers.add_parser("predict", help="label images", description=__doc__)
    parser.add_argument("preset", help="name (cspvit/cifar10_small), folder, or handle")
    parser.add_argument("images", nargs="+", type=Path, metavar="IMAGE", help="image files")
    parser.add_argument("--top", type=int, default=5, help="labels to print (default: 5)")
    parser.set_defaults(run=run)


def run(arguments):
    """Print the most probable labels of each image. Returns the exit code."""
    import keras
    import numpy as np

    from keras_permix.zoo import preset_info
    from keras_permix.zoo.presets.names import load_preset

    if arguments.top < 1:
        raise ValueError(f"`--top` must be at least 1. Received: {arguments.top}")
    labels = preset_info(arguments.preset).metadata.get("labels")
    model = load_preset(None, arguments.preset)
    labels = labels or [str(index) for index in range(model.output_shape[-1])]
    images = [read_image(path, model.input_shape[-1]) for path in arguments.images]
    for path, image in zip(arguments.images, images, strict=True):
        logits = model(image[None], training=False)
        probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(logits))[0]
        print(path)
        for index in np.argsort(-probabilities)[: arguments.top]:
            print(f"  {100 * probabilities[index]:6.2f} %  {labels[index]}")
    return 0


def read_image(path, channels):
    """Read an image file as a uint8 array `(height, width, channels)`.

    Raises:
        ImportError: if Pillow is not installed.
        ValueError: if the file is not there or is no image, or channels are not 1 or 3.
    """
    import numpy as np

    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            'Reading images needs Pillow: pip install "keras_permix[train]".'
        ) from error
    if channels not in (1, 3):
        raise ValueError(f"Image files have 1 or 3 channels. Received: a model for {channels}")
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
    except OSError as error:
        raise ValueError(
            f"`IMAGE` must be an image file that Pillow can read. Received: {path} ({error})"
        ) from error
    return pixels.reshape(*pixels.shape[:2], channels)
