"""Put a finished run into the repository: preset to `weights/`, card, log and curves to `zoo/`.

    python tools/publish.py runs/cspvit/cifar10_small

The preset's name is that of the run. All of it is put there, or nothing.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from keras_permix.training.record import read_record
from keras_permix.zoo import preset_info

ROOT = Path(__file__).resolve().parents[1]
STORY = ("README.md", "log.csv", "curves.png")
PREFIX, OLD = ".publish", "old"  # of the folder to work in, and in it of what was replaced


def publish(run, root=ROOT):
    """Copy what a run made into the repository `root`.

    Args:
        run: Folder of a finished run.
        root: The repository.

    Returns:
        The two folders that it now lies in.

    Raises:
        ValueError: for a smoke run, a recipe outside the repository, or a damaged preset.
        OSError: for a missing file, or a folder that cannot be written.
    """
    run, root = Path(run), Path(root)
    record = read_record(run)
    _check(record, run)
    places = [root / "weights" / record["name"], root / "zoo" / record["name"]]
    recover(root)
    with tempfile.TemporaryDirectory(dir=root, prefix=PREFIX) as folder:
        preset, story = Path(folder, "preset"), Path(folder, "story")
        shutil.copytree(run / "preset", preset)
        if places[1].is_dir():
            shutil.copytree(places[1], story)
        story.mkdir(exist_ok=True)
        for file in STORY:
            shutil.copy(run / file, story / file)
        replace_all({preset: places[0], story: places[1]}, root, Path(folder, OLD))
    return places


def recover(root):
    """Put back what a publishing that was killed had taken from its place, and remove the rest."""
    for left in root.glob(f"{PREFIX}*"):
        for kept in left.glob(f"{OLD}/*/*/*"):  # weights or zoo, class, preset
            place = root / kept.relative_to(left / OLD)
            if not place.exists():
                os.rename(kept, place)
        shutil.rmtree(left)


def replace_all(moves, root, old):
    """Rename folders to their places, or leave all places as they were.

    Args:
        moves: Dict from new folders to their places in `root`.
        root: The repository.
        old: Folder to keep in, till all is done, what stood there.
    """
    done = []
    try:
        for new, place in moves.items():
            kept = old / place.relative_to(root)
            place.parent.mkdir(parents=True, exist_ok=True)
            kept.parent.mkdir(parents=True, exist_ok=True)
            done.append((new, place, kept))
            if place.exists():
                os.rename(place, kept)
            os.rename(new, place)
    except BaseException:
        for new, place, kept in done:
            if not new.exists():
                shutil.rmtree(place)
            if kept.exists():
                os.rename(kept, place)
        raise


def _check(record, run):
    if record["smoke"]:
        raise ValueError(f"A smoke run is not published. Received: {run}")
    if not record["recipe"].startswith("zoo/"):
        raise ValueError(
            "A published preset must have its recipe in the repository's `zoo/`. "
            f"Received: {record['recipe']}"
        )
    preset_info(run / "preset").files.verify()


if __name__ == "__main__":
    for place in publish(sys.argv[1]):
        print(place.relative_to(ROOT))
