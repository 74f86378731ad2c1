"""`permix evaluate`: top-1 and top-5 accuracy of a preset on a test set."""

import json
from pathlib import Path


def add_parser(subparsers):
    parser = subparsers.add_parser("evaluate", help="score a preset", description=__doc__)
    parser.add_argument("preset", help="name (cspvit/cifar10_small), folder, or handle")
    parser.add_argument("--data", help="name of the data set (default: the preset's own)")
    parser.add_argument("--data-dir", type=Path, help="folder with data files")
    parser.add_argument("--batch-size", type=int, default=250)
    parser.add_argument("--json", type=Path, help="also write the scores to this file")
    parser.set_defaults(run=run)


def run(arguments):
    """Print the scores. Returns the exit code."""
    from keras_permix import data
    from keras_permix.zoo import preset_info
    from keras_permix.zoo.presets.names import load_preset

    name = arguments.data or preset_info(arguments.preset).metadata.get("data")
    if name is None:
        raise ValueError(
            f"The preset must name its data set, or `--data` be given. Received: {arguments.preset}"
        )
    model = load_preset(None, arguments.preset)
    test = data.load_images(name, data_dir=arguments.data_dir).test
    scores = {
        f"{name}/test/{metric}": round(value, 5)
        for metric, value in accuracy(model, *test, arguments.batch_size).items()
    }
    for key, value in scores.items():
        print(f"{key}: {100 * value:.2f} %")
    if arguments.json:
        arguments.json.write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")
    return 0


def accuracy(model, images, labels, batch_size):
    """Top-1 and top-5 accuracy of a classifier.

    Args:
        model: A model that gives logits.
        images: uint8 `(images, height, width, channels)`.
        labels: Indices of the classes, `(images,)`.
        batch_size: Images in a batch.

    Returns:
        A dict with "top1" and "top5", 0–1; without "top5" where there are no more than 5 classes.

    Raises:
        ValueError: if the images have other channels, or labels that the model does not know.
    """
    import keras

    from keras_permix.data import ImagePipeline

    if images.shape[-1] != model.input_shape[-1]:
        raise ValueError(
            f"The model takes images of {model.input_shape[-1]} channels. "
            f"Received: images of shape {images.shape}"
        )
    classes = model.output_shape[-1]
    metrics = [keras.metrics.SparseCategoricalAccuracy(name="top1")]
    if classes > 5:
        metrics.append(keras.metrics.SparseTopKCategoricalAccuracy(5, name="top5"))
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=metrics
    )
    batches = ImagePipeline(images, labels, batch_size=batch_size, num_classes=classes)
    scores = model.evaluate(batches, return_dict=True)
    return {metric.name: float(scores[metric.name]) for metric in metrics}
