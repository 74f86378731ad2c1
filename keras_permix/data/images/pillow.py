"""Pillow, imported where a format needs it."""


def pillow_image():
    """Return the module `PIL.Image`, or say how to get it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "This image format is read with Pillow: run `pip install pillow`. "
            "Received: an environment without it"
        ) from error
    return Image
