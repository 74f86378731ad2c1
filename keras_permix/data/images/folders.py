"""Find the images in folders."""

SUFFIXES = (
    ".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".pgm", ".png", ".ppm",
    ".tif", ".tiff", ".webp",
)  # fmt: skip


def images_by_class(folder):
    """Return pairs of an image and its class, from a folder per class."""
    classes = sorted(p for p in folder.iterdir() if p.is_dir() and not _hidden(p, folder))
    found = {path: images_in(path) for path in classes}
    if not found or not all(found.values()):
        empty = [path.name for path, files in found.items() if not files]
        rule = f"Images must be in a folder per class, and end in {', '.join(SUFFIXES)}"
        without = f"{len(found)} classes, without images in {empty[:8]}"
        raise ValueError(f"{rule}. Received: {folder} with {without}")
    return [(file, path.name) for path, files in found.items() for file in files]


def images_in(folder):
    """Return the paths of the images in a folder and its sub-folders, except hidden ones."""
    files = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    return sorted(path for path in files if path.is_file() and not _hidden(path, folder))


def _hidden(path, folder):
    parts = path.relative_to(folder).parts
    return any(part.startswith(".") or part == "__MACOSX" for part in parts)  # macOS zips
