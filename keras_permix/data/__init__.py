"""Data sets, and the pipelines that bring them to a model."""

from keras_permix.data.graphs.pad import pad_graphs
from keras_permix.data.images.augment import Augmentation, make_augmentation
from keras_permix.data.images.generated import generated_images
from keras_permix.data.images.rand_augment import RandAugment
from keras_permix.data.images.records import RecordSource
from keras_permix.data.images.resize import ResizeCrop
from keras_permix.data.images.sets import ImageData, load_images
from keras_permix.data.images.sheet import load_sheet
from keras_permix.data.images.tfds_images import tfds_images, tfds_source
from keras_permix.data.pipeline import ImagePipeline

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
