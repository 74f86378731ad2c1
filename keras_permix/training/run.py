"""From a recipe to a trained model."""

import keras
import numpy as np

from keras_permix import data, zoo
from keras_permix.training.run_folder import RunFolder
from keras_permix.training.schedules import make_optimizer


def make_model(recipe):
    """The model of a recipe, in the recipe's precision, with weights made from its seed.

    Raises:
        ValueError: if the recipe names no model class of the zoo.
    """
    spec = dict(recipe["model"])
    name = spec.pop("class_name", None)
    if name not in zoo.MODELS:
        raise ValueError(
            f"`model` must name a class of {sorted(zoo.MODELS)} as `class_name`. Received: {name!r}"
        )
    keras.utils.set_random_seed(recipe["seed"])
    return zoo.MODELS[name](**spec, dtype=recipe["precision"])


def compile_model(model, recipe, steps_per_epoch):
    """Compile `model` with the optimizer, loss and metrics of the recipe."""
    model.compile(
        optimizer=make_optimizer(recipe, steps_per_epoch),
        loss=keras.losses.CategoricalCrossentropy(
            from_logits=True, label_smoothing=recipe["label_smoothing"]
        ),
        metrics=image_metrics(recipe["model"]["num_classes"]),
    )


def image_metrics(num_classes):
    """Top-1 accuracy on one-hot labels, and top-5 where there are more than five classes."""
    top1 = keras.metrics.CategoricalAccuracy(name="top1")
    if num_classes <= 5:
        return [top1]
    return [top1, keras.metrics.TopKCategoricalAccuracy(5, name="top5")]


def batches(images, labels, recipe, *, training, epoch=0):
    """Batches of images with one-hot labels; shuffled and augmented for training."""
    num_classes = recipe["model"]["num_classes"]
    augment = None
    if training and recipe["augmentation"]:
        augment = data.make_augmentation(recipe["augmentation"], recipe["seed"], num_classes)
    return data.ImagePipeline(
        images,
        labels,
        batch_size=recipe["batch_size"],
        num_classes=num_classes,
        shuffle=training,
        drop_remainder=training,
        seed=recipe["seed"],
        epoch=epoch,
        augment=_OneHot(augment, num_classes),
    )


class _OneHot:
    """Augment a batch, then make its labels one-hot where the augmentation has not."""

    def __init__(self, augment, num_classes):
        self.augment = augment
        self.num_classes = num_classes

    def __call__(self, images, labels, epoch, index):
        if self.augment is not None:
            images, labels = self.augment(images, labels, epoch, index)
        if labels.ndim == 1:
            labels = np.eye(self.num_classes, dtype="float32")[labels]
        return images, labels


def train(recipe, image_data, out, verbose=1, callbacks=()):
    """Train the model of a recipe, from where the folder `out` left off.

    Args:
        recipe: A dict as `load_recipe` gives it.
        image_data: `ImageData` to train and test on.
        out: Folder of the run.
        verbose: Progress of `fit`: 0 silent, 1 a bar, 2 a line an epoch.
        callbacks: More Keras callbacks for `fit`.

    Returns:
        `(model, rows)`: the trained model and the rows of the log, one an epoch.
    """
    folder = RunFolder(out, recipe)
    model = make_model(recipe)
    training = batches(*image_data.train, recipe, training=True, epoch=folder.epoch)
    compile_model(model, recipe, len(training))
    folder.restore(model)
    some = slice(recipe["validation_images"])
    some_test = [None if part is None else part[some] for part in image_data.test]
    callbacks = [folder, *callbacks]
    if recipe["ema"] is not None:
        callbacks.append(keras.callbacks.SwapEMAWeights())
    model.fit(
        training,
        validation_data=batches(*some_test, recipe, training=False),
        initial_epoch=folder.epoch,
        epochs=recipe["epochs"],
        callbacks=callbacks,
        verbose=verbose,
    )
    return model, folder.rows
