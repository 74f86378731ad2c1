"""Test unpacking of compressed tables: size limits and damaged files."""

import gzip
import lzma
from pathlib import Path

import pytest

from keras_permix.utils.tables import FREE, RATIO, parse_rows, unpack

pytestmark = pytest.mark.once
PACK = {".gz": gzip.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", PACK)
def test_decompression_bomb_raises(suffix):
    blob = PACK[suffix](bytes(FREE * 10))
    assert RATIO * len(blob) < FREE * 9
    with pytest.raises(ValueError, match=f"{len(blob):,} bytes that unpack to more than"):
        unpack(blob, suffix)
    with pytest.raises(ValueError, match=f"Received: a.csv{suffix} .*unpack to more than"):
        parse_rows(blob, Path(f"a.csv{suffix}"))


@pytest.mark.parametrize("suffix", PACK)
def test_truncated_file_raises(suffix):
    blob = PACK[suffix](b"text,label\nwell done,good\n")
    assert parse_rows(blob, Path(f"a.csv{suffix}")) == [{"text": "well done", "label": "good"}]
    with pytest.raises(ValueError, match="Received: a.csv"):
        parse_rows(blob[:-10], Path(f"a.csv{suffix}"))


def test_second_stream_raises():
    with pytest.raises(EOFError):
        unpack(lzma.compress(b"one") + lzma.compress(b"two"), ".xz")
