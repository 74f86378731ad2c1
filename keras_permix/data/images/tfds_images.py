"""Load image sets of TensorFlow Datasets."""

from pathlib import Path

from keras_permix._typing import StrPath
from keras_permix.data.dataset import Dataset
from keras_permix.data.files import part_names
from keras_permix.data.images.records import RecordSource, ResizeCrop
from keras_permix.utils.checks import import_extra


def tfds_images(
    name: str,
    image_size: int,
    data_dir: StrPath | None = None,
    *,
    splits: tuple[str, str] = ("train", "test"),
    seed: int = 0,
    random_crop: bool = True,
) -> Dataset:
    """Load the training and the test split of a set of TensorFlow Datasets.

    On first use, TFDS downloads the set and prepares it in the ArrayRecord format, which requires
    TensorFlow for some features. Later, the set is read without TensorFlow.

    Args:
        name: Str, name of a set with features "image" and "label", such as `"imagenet2012"`.
        image_size: Int, side of the images in pixels.
        data_dir: Folder of prepared sets. Default: `None`, the default of TFDS.
        splits: Tuple of the splits for training and testing, in TFDS' notation, such as
            `"train[:90%]"`.
        seed, random_crop: As in `folder_images`. Test images are cropped centrally. Default: 0,
            `True`.

    Returns:
        A `Dataset` of parts `(RecordSource, None)`.

    Raises:
        ImportError: If tensorflow-datasets is not installed.
        ValueError: If TFDS has no such set, or the set lacks a split or the features.
        ConnectionError: If the set cannot be prepared.

    Example:
        >>> birds = tfds_images("caltech_birds2011", 64)  # doctest: +SKIP
        >>> len(birds.labels)  # doctest: +SKIP
        200
    """
    train, test = (
        _source(name, split, data_dir, ResizeCrop(image_size, cut), seed)
        for split, cut in zip(part_names(splits), (random_crop, False), strict=True)
    )
    return Dataset(name, (train, None), (test, None), train.labels)


def _source(name, split, data_dir, transform, seed):
    """Read a split by index; `source.labels` are the names of its classes."""
    tfds = import_extra("tensorflow_datasets", "train", f"The data set {name}")
    folder = data_dir and str(Path(data_dir).expanduser())
    try:
        builder = tfds.builder(name, data_dir=folder, file_format="array_record")
    except tfds.core.DatasetNotFoundError as error:  # whose message lists all sets
        raise ValueError(f"`name` must be a set of TFDS. Received: {name=}, {data_dir=}") from error
    try:
        builder.download_and_prepare()
    except Exception as error:  # Each source of downloads raises different exceptions.
        raise ConnectionError(f"{name} could not be prepared. Received: {error!r}") from error
    features = builder.info.features
    if not {"image", "label"} <= set(features) or not hasattr(features["label"], "names"):
        raise ValueError(f"`name` must be a set with an image and a class. Received: {name=}")
    source = RecordSource(builder.as_data_source(split), transform, seed)
    source.labels = tuple(features["label"].names)
    return source
