"""Load data sets and batch them for training."""

from keras_permix.data.dataset import Dataset
from keras_permix.data.graphs.pad import pad_graphs
from keras_permix.data.graphs.preprocess import preprocess_graph
from keras_permix.data.graphs.sets import GraphSource, load_graphs
from keras_permix.data.graphs.smiles import from_smiles
from keras_permix.data.images.augment import Augmentation
from keras_permix.data.images.decode import read_image
from keras_permix.data.images.own import folder_images, listed_images
from keras_permix.data.images.rand_augment import RandAugment
from keras_permix.data.images.records import RecordSource, ResizeCrop
from keras_permix.data.images.sets import generated_images, load_images, load_sheet
from keras_permix.data.images.tfds_images import tfds_images
from keras_permix.data.lra.listops import (
    LISTOPS_VOCABULARY,
    generated_listops,
    listops_tokenizer,
    load_listops,
)
from keras_permix.data.lra.pathfinder import generated_pathfinder, load_pathfinder
from keras_permix.data.lra.pixels import load_pixels
from keras_permix.data.lra.retrieval import load_retrieval, load_review_halves
from keras_permix.data.pipeline import Pipeline
from keras_permix.data.text.sets import load_texts
from keras_permix.data.text.sources import TextSource, TokenSource
from keras_permix.data.text.tokenizer import SubwordEncoder, train_tokenizer
from keras_permix.data.text.tokens import encode_bytes, encode_texts, pad_tokens

__all__ = [
    "LISTOPS_VOCABULARY",
    "Augmentation",
    "Dataset",
    "GraphSource",
    "Pipeline",
    "RandAugment",
    "RecordSource",
    "ResizeCrop",
    "SubwordEncoder",
    "TextSource",
    "TokenSource",
    "encode_bytes",
    "encode_texts",
    "folder_images",
    "from_smiles",
    "generated_images",
    "generated_listops",
    "generated_pathfinder",
    "listed_images",
    "listops_tokenizer",
    "load_graphs",
    "load_images",
    "load_listops",
    "load_pathfinder",
    "load_pixels",
    "load_retrieval",
    "load_review_halves",
    "load_sheet",
    "load_texts",
    "pad_graphs",
    "pad_tokens",
    "preprocess_graph",
    "read_image",
    "tfds_images",
    "train_tokenizer",
]
