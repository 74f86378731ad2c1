"""Test image decoding: orientation, bit depth, palettes, transparency, CMYK and errors."""

import warnings

import numpy as np
import pytest
from PIL import Image

from keras_permix.data import read_image

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (6, 9, 3), dtype="uint8")


def test_rgb_is_read_unchanged(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), PIXELS)


# EXIF orientation -> function that makes the stored pixels upright.
UPRIGHT = {
    1: lambda x: x, 2: lambda x: x[:, ::-1], 3: lambda x: x[::-1, ::-1], 4: lambda x: x[::-1],
    5: lambda x: x.swapaxes(0, 1), 6: lambda x: np.rot90(x, -1),
    7: lambda x: np.rot90(x, 2).swapaxes(0, 1), 8: np.rot90,
}  # fmt: skip


@pytest.mark.parametrize("orientation", UPRIGHT)
def test_exif_orientation_is_applied(orientation, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(PIXELS).save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), UPRIGHT[orientation](PIXELS))


def test_unreadable_exif_is_ignored(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "a.png", exif=b"Exif\0\0no such file")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), PIXELS)


@pytest.mark.parametrize("channels", [1, 3])
def test_16_bit_gray_is_scaled_to_8_bits(channels, tmp_path):
    levels = np.array([[0, 128, 129, 300], [32768, 65000, 65406, 65535]], "uint16")
    Image.fromarray(levels).save(tmp_path / "a.png")
    read = read_image(tmp_path / "a.png", channels)
    expected = np.round(levels / 257)[..., None].repeat(channels, -1)
    np.testing.assert_array_equal(read, expected)


def test_16_bit_file_with_8_bit_levels_warns(tmp_path):
    """Levels are scaled by the range of the format, so that the image is almost black."""
    levels = np.array([[0, 200], [255, 1]], "uint16")
    Image.fromarray(levels).save(tmp_path / "a.png")
    Image.fromarray(levels).save(tmp_path / "b.png")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        read = [read_image(tmp_path / f"{name}.png").max() for name in "aba"]
    assert read == [1, 1, 1]
    [message] = [str(warning.message) for warning in caught]
    assert message.endswith(f"Save it with 8 bits. Received: an image in {tmp_path}")
    Image.fromarray(levels * 0).save(tmp_path / "black.png")
    assert not read_image(tmp_path / "black.png").any()


def test_16_bit_color_is_scaled_to_8_bits(tmp_path):
    """Build the PNG by hand, because Pillow cannot write 16-bit color."""
    import struct
    import zlib

    levels = RNG.integers(0, 65536, (3, 4, 3), dtype="uint16")
    lines = b"".join(b"\0" + line.astype(">u2").tobytes() for line in levels)
    content = b"\x89PNG\r\n\x1a\n"
    header = struct.pack(">IIBBBBB", 4, 3, 16, 2, 0, 0, 0)
    for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")):
        content += struct.pack(">I", len(data)) + kind + data
        content += struct.pack(">I", zlib.crc32(kind + data))
    (tmp_path / "a.png").write_bytes(content)
    difference = read_image(tmp_path / "a.png") - levels / 257
    assert np.abs(difference).max() < 1


def test_palette_is_converted_to_rgb(tmp_path):
    colors = np.array([[255, 0, 0], [0, 128, 0], [1, 2, 3]], "uint8")
    numbers = np.array([[0, 1, 2], [2, 1, 0]], "uint8")
    picture = Image.new("P", (3, 2))
    picture.putpalette(colors.tobytes())
    picture.putdata(numbers.ravel().tolist())
    picture.save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), colors[numbers])
    picture.save(tmp_path / "b.png", transparency=0)
    shown = colors.copy()
    shown[0] = 255
    np.testing.assert_array_equal(read_image(tmp_path / "b.png"), shown[numbers])


@pytest.mark.parametrize("channels", [1, 3])
def test_alpha_is_blended_with_white(channels, tmp_path):
    alpha = RNG.integers(0, 256, (6, 9, 1), dtype="uint8")
    gray = PIXELS[..., :1].repeat(3, -1)
    Image.fromarray(np.concatenate([gray, alpha], -1)).save(tmp_path / "a.png")
    share = alpha / 255
    expected = (gray * share + 255 * (1 - share))[..., :channels]
    assert np.abs(read_image(tmp_path / "a.png", channels) - expected).max() <= 1


def test_cmyk_is_converted_to_rgb(tmp_path):
    inks = np.zeros((2, 2, 4), "uint8")
    inks[0, 0] = 255, 0, 0, 0  # cyan
    inks[1, 1] = 0, 0, 0, 255  # black
    Image.frombytes("CMYK", (2, 2), inks.tobytes()).save(tmp_path / "a.tif")
    expected = [[[0, 255, 255], [255] * 3], [[255] * 3, [0] * 3]]
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), expected)


def save_half(path):
    Image.fromarray(PIXELS).save(path)
    path.write_bytes(path.read_bytes()[:90])


@pytest.mark.parametrize("kind", ["png", "gif", "jp2"])
def test_damaged_file_raises(kind, tmp_path):
    path = tmp_path / f"a.{kind}"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype="uint8")
    Image.fromarray(noise).save(path)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle:] = b"" if kind == "jp2" else bytes(64) + content[middle + 64 :]
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"must be undamaged.*a.{kind}"):
        read_image(path)


@pytest.mark.parametrize(
    ("save", "rule"),
    [
        (lambda path: path.write_bytes(b"no image"), "must be undamaged.*a.tif"),
        (save_half, "must be undamaged.*a.tif"),
        (lambda path: Image.fromarray(np.zeros((2, 2), "float32")).save(path), "floats"),
        (
            lambda path: Image.fromarray(np.full((2, 2), 70000, "int32")).save(path),
            "not from 0 to 65535",
        ),
    ],
    ids=["no image", "truncated", "floats", "32 bits"],
)
def test_unreadable_file_raises(save, rule, tmp_path):
    save(tmp_path / "a.tif")
    with pytest.raises(ValueError, match=rule):
        read_image(tmp_path / "a.tif")


def test_invalid_arguments_raise(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere.png"):
        read_image(tmp_path / "nowhere.png")
    with pytest.raises(ValueError, match="`channels` must be 1 or 3.*Received: 4"):
        read_image(tmp_path / "nowhere.png", channels=4)


CONTAINERS = {
    "RGB": lambda gray: gray.convert("RGB"), "gray": lambda gray: gray,
    "16 bits": lambda gray: Image.fromarray(np.asarray(gray).astype("uint16") * 257),
    "RGBA": lambda gray: gray.convert("RGBA"), "CMYK": lambda gray: gray.convert("CMYK"),
    "palette": lambda gray: gray.convert("P"), "1 bit": lambda gray: gray.convert("1"),
}  # fmt: skip


@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_deflate", "packbits"])
@pytest.mark.parametrize("mode", CONTAINERS)
@pytest.mark.parametrize("orientation", [3, 6])
def test_tiff_orientation_is_applied(mode, compression, orientation, tmp_path):
    """Pillow memory-maps uncompressed TIFF files and then ignores their orientation."""
    gray = Image.fromarray(np.arange(24, dtype="uint8").reshape(4, 6) * 10)
    image, exif = CONTAINERS[mode](gray.convert("RGB") if mode == "CMYK" else gray), Image.Exif()
    image.save(tmp_path / "plain.png" if mode != "CMYK" else tmp_path / "plain.tif")
    plain = read_image(next(tmp_path.glob("plain.*")))
    exif[0x0112] = orientation
    image.save(tmp_path / "a.tif", exif=exif, compression=compression)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), UPRIGHT[orientation](plain))


def png(bits, kind, row, color):
    """Return a PNG with four equal rows and a transparent color, both given as bytes."""
    import struct
    import zlib

    def chunk(name, data):
        check = struct.pack(">I", zlib.crc32(name + data))
        return struct.pack(">I", len(data)) + name + data + check

    header = struct.pack(">IIBBBBB", 8, 4, bits, kind, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"tRNS", color)
    pixels = chunk(b"IDAT", zlib.compress((b"\0" + row) * 4))
    return b"\x89PNG\r\n\x1a\n" + chunks + pixels + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("bits", "kind", "row", "color", "others"),
    [
        (1, 0, b"\x55", b"\0\1", 0),
        (2, 0, b"\x66\x66", b"\0\1", 170),
        (4, 0, b"\x73" * 4, b"\0\7", 51),
        (8, 0, bytes([100, 9] * 4), b"\0\x64", 9),
        (16, 0, b"\x9c\x40\x09\x09" * 4, b"\x9c\x40", 9),
        (16, 2, b"\x9c\x40\x4e\x20\x27\x10" * 4 + b"\x09\x09" * 12, b"\x9c\x40\x4e\x20\x27\x10", 9),
    ],
)
def test_transparent_color_becomes_white(bits, kind, row, color, others, tmp_path):
    (tmp_path / "a.png").write_bytes(png(bits, kind, row, color))
    assert {tuple(pixel) for pixel in read_image(tmp_path / "a.png")[0].tolist()} == {
        (255, 255, 255), (others,) * 3
    }  # fmt: skip


def tiff(bits, photometric, strip, columns):
    """Return an uncompressed TIFF with one row."""
    import struct

    tags = [
        (256, 4, columns), (257, 4, 1), (258, 3, bits), (259, 3, 1), (262, 3, photometric),
        (273, 4, 8), (277, 3, 1), (278, 4, 1), (279, 4, len(strip)),
    ]  # fmt: skip
    entries = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    start = struct.pack("<2sHI", b"II", 42, 8 + len(strip))
    return start + strip + struct.pack("<H", len(tags)) + entries + bytes(4)


@pytest.mark.parametrize(
    ("bits", "photometric", "strip", "expected"),
    [
        (16, 0, np.array([0, 65535], "<u2").tobytes(), [255, 0]),
        (16, 1, np.array([0, 65535], "<u2").tobytes(), [0, 255]),
        (12, 1, b"\x00\x0f\xff", [0, 255]),
        (8, 0, b"\x00\xff", [255, 0]),
    ],
)
def test_tiff_with_white_is_zero_or_12_bits(bits, photometric, strip, expected, tmp_path):
    (tmp_path / "a.tif").write_bytes(tiff(bits, photometric, strip, 2))
    assert read_image(tmp_path / "a.tif")[0, :, 0].tolist() == expected
