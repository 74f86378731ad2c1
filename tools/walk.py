"""Count the package's files that a common call enters, and print the walk from file to file.

A file counts when one of its functions runs during the call. Imports do not count. For each file
the walk names the first function that was entered.

    KERAS_BACKEND=torch python tools/walk.py from_preset
"""

import argparse
import inspect
import os
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (f"{ROOT / 'keras_permix'}{os.sep}", str(ROOT / "permix.py"))


def from_preset():
    """Load a preset."""
    from keras_permix.zoo import CSPViT

    return lambda: CSPViT.from_preset("cifar10_small")


def layer():
    """Call a new layer for the first time."""
    import numpy as np

    from keras_permix.layers import CSP

    x = np.ones((2, 16, 8), "float32")
    return lambda: CSP()(x)


def train():
    """Train a preset's recipe on a few samples."""
    return lambda: command("train", "cspvit/mnist", "--smoke")


def predict():
    """Predict the class of an image."""
    image = ROOT / "examples" / "images" / "cat.png"
    return lambda: command("predict", "cspvit/cifar10_small", str(image))


CALLS = {"from_preset": from_preset, "layer": layer, "train": train, "predict": predict}


def command(*arguments: str) -> None:
    """Run `permix` in this process, in an empty folder."""
    import permix

    sys.argv = ["permix", *arguments]
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w", encoding="utf-8") as null:
        os.chdir(folder)
        shown, sys.stdout = sys.stdout, null
        try:
            permix.command()
        except SystemExit as end:
            if end.code:
                raise
        finally:
            sys.stdout = shown
            os.chdir(home)


def importing(frame: FrameType | None) -> bool:
    """Return whether a frame runs on behalf of the body of one of the package's modules."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(SOURCES):
            return True
        frame = frame.f_back
    return False


def walk(call) -> dict[str, str]:
    """Return the files that a call enters, in order, with the first function of each."""
    entered: dict[str, str] = {}
    seen: set[CodeType] = set()

    def trace(frame: FrameType, event: str, _) -> None:
        code = frame.f_code
        if code in seen or not code.co_filename.startswith(SOURCES):
            return
        # Modules and class bodies lack this flag.
        if code.co_flags & inspect.CO_OPTIMIZED and not importing(frame):
            seen.add(code)
            name = str(Path(code.co_filename).relative_to(ROOT))
            entered.setdefault(name, code.co_qualname)

    threading.settrace(trace)
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    return entered


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Print the files that a call enters.")
    parser.add_argument("call", choices=CALLS)
    name = parser.parse_args(arguments).call
    entered = walk(CALLS[name]())
    for file, function in entered.items():
        print(f"{file} → {function}")
    print(f"{name}: {len(entered)} files")


if __name__ == "__main__":
    main()
