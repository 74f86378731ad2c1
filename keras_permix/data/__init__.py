"""Data sets, and the pipelines that bring them to a model."""

from keras_permix.data.augment import Augmentation, make_augmentation
from keras_permix.data.generated import generated_images
from keras_permix.data.graphs import pad_graphs
from keras_permix.data.images import ImageData, load_images
from keras_permix.data.pipeline import ImagePipeline
from keras_permix.data.rand_augment import RandAugment
from keras_permix.data.records import RecordSource
from keras_permix.data.resize import ResizeCrop
from keras_permix.data.sheet import load_sheet
from keras_permix.data.tfds_images import tfds_images, tfds_source

__all__ = [
    "Augmentation",
    "ImageData",
    "ImagePipeline",
    "RandAugment",
    "RecordSource",
    "ResizeCrop",
    "generated_images",
    "load_images",
    "load_sheet",
    "make_augmentation",
    "pad_graphs",
    "tfds_images",
    "tfds_source",
]
