"""Image sets of TensorFlow Datasets: prepared once, then read without TensorFlow."""

from pathlib import Path

from keras_permix._typing import StrPath
from keras_permix.data.dataset import Dataset
from keras_permix.data.images.records import RecordSource, Transform
from keras_permix.data.images.resize import ResizeCrop

# TFDS' `data_dir` default, spelled out to name it in an error.
DEFAULT_DIR = "~/tensorflow_datasets"


def tfds_source(
    name: str,
    split: str,
    data_dir: StrPath | None = None,
    *,
    transform: Transform | None = None,
    seed: int = 0,
) -> RecordSource:
    """Give the records of a split of a TFDS set, by index.

    On first use, TFDS downloads and prepares the set in the ArrayRecord format, which may need
    TensorFlow (TFDS encodes some features with it). From then on it is read with
    `tfds.data_source`, which does not import TensorFlow.

    Args:
        name: Name of a set with features "image" and "label", such as `"imagenet2012"`.
        split: Split in TFDS' notation, such as `"train"` or `"train[:90%]"`.
        data_dir: Folder of prepared sets; TFDS' own default if None.
        transform: As in `RecordSource`; needed where images differ in size.
        seed: As in `RecordSource`.

    Returns:
        A `RecordSource`; `source.labels` are the names of its classes.

    Raises:
        ImportError: if tensorflow-datasets is missing.
        ValueError: if TFDS knows no set of this name, or the set has no such split or features.
        ConnectionError: if the set cannot be prepared.

    Example:

    >>> crop = ResizeCrop(224, random=True)
    >>> train = tfds_source("imagenet2012", "train", transform=crop)  # doctest: +SKIP
    >>> batches = Pipeline(train, batch_size=256, shuffle=True)  # doctest: +SKIP
    """
    builder = _prepared(name, data_dir)
    features = builder.info.features
    if not {"image", "label"} <= set(features):
        raise ValueError(
            "`name` must be a set with the features image and label. "
            f"Received: {name!r} with {', '.join(features)}"
        )
    if split.split("[")[0] not in builder.info.splits:
        raise ValueError(
            f"`split` must be one of {', '.join(builder.info.splits)}, or a part of one. "
            f"Received: split={split!r}"
        )
    source = RecordSource(builder.as_data_source(split), transform, seed)
    source.labels = tuple(features["label"].names)
    return source


def tfds_images(
    name: str,
    image_size: int,
    data_dir: StrPath | None = None,
    *,
    splits: tuple[str, str] = ("train", "test"),
    seed: int = 0,
    random_crop: bool = True,
) -> Dataset:
    """Give the training and the test split of a TFDS set as a `Dataset`.

    Its parts are `(source, None)`: the labels are in the records.

    Args:
        name: As in `tfds_source`.
        image_size: Side of the images, in pixels.
        data_dir: As in `tfds_source`.
        splits: The splits for training and testing.
        seed: Int ≥ 0, of the random crops.
        random_crop: Whether training images are cut at random; test images are cut in the middle.

    Returns:
        A `Dataset`.

    Example:

    >>> birds = tfds_images("caltech_birds2011", 64)  # doctest: +SKIP
    >>> len(birds.labels)  # doctest: +SKIP
    200
    """
    train, test = (
        tfds_source(name, split, data_dir, transform=ResizeCrop(image_size, cut), seed=seed)
        for split, cut in zip(splits, (random_crop, False), strict=True)
    )
    return Dataset(name, (train, None), (test, None), train.labels)


def _prepared(name, data_dir):
    tfds = _library()
    folder = str(Path(data_dir or DEFAULT_DIR).expanduser())
    try:
        builder = tfds.builder(name, data_dir=folder, file_format="array_record")
    except tfds.core.DatasetNotFoundError as error:
        raise ValueError(
            "`name` must be a set that TFDS knows, or one prepared in `data_dir`. "
            f"Received: name={name!r}, data_dir={folder}"
        ) from error
    try:
        builder.download_and_prepare()
    except Exception as error:  # TFDS raises what its many download back ends raise.
        raise ConnectionError(
            f"{name} could not be downloaded and prepared in {folder}. It is done once, with a "
            "connection and with TensorFlow installed; some sets must be fetched by hand, as "
            f"TFDS' catalog tells. Received: {type(error).__name__}: {error}"
        ) from error
    return builder


def _library():
    try:
        import tensorflow_datasets
    except ImportError as error:
        raise ImportError(
            "Reading a TFDS set needs tensorflow-datasets: run `pip install tensorflow-datasets`. "
            "Received: an environment without it"
        ) from error
    return tensorflow_datasets
