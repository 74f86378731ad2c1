"""Test unpacking of compressed tables."""

import gzip
import lzma
from pathlib import Path

import pytest

from keras_permix.utils.tables import parse_rows

pytestmark = pytest.mark.once
PACK = {".gz": gzip.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", PACK)
def test_truncated_file_raises(suffix):
    blob = PACK[suffix](b"text,label\nwell done,good\n")
    assert parse_rows(blob, Path(f"a.csv{suffix}")) == [{"text": "well done", "label": "good"}]
    with pytest.raises(ValueError, match="Received: a.csv"):
        parse_rows(blob[:-10], Path(f"a.csv{suffix}"))
