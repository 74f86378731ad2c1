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
    folders = [root / "weights" / record["name"], root / "zoo" / record["name"]]
    recover(root)
    with tempfile.TemporaryDirectory(dir=root, prefix=PREFIX) as folder:
        preset, story = Path(folder, "preset"), Path(folder, "story")
        shutil.copytree(run / "preset", preset)
        if folders[1].is_dir():
            shutil.copytree(folders[1], story)
        story.mkdir(exist_ok=True)
        for file in STORY:
            shutil.copy(run / file, story / file)
        replace_all({preset: folders[0], story: folders[1]}, root, Path(folder, OLD))
    return folders


def recover(root):
    """Put back what a publishing that was killed had taken away, and remove the rest."""
    for left in root.glob(f"{PREFIX}*"):
        for kept in left.glob(f"{OLD}/*/*/*"):  # weights or zoo, class, preset
            home = root / kept.relative_to(left / OLD)
            if not home.exists():
                os.rename(kept, home)
        shutil.rmtree(left)


def replace_all(moves, root, old):
    """Rename folders to those they are for, or leave all as it was.

    Args:
        moves: Dict from new folders to those in `root`.
        root: The repository.
        old: Folder to keep in, till all is done, what stood there.
    """
    done = []
    try:
        for new, home in moves.items():
            kept = old / home.relative_to(root)
            home.parent.mkdir(parents=True, exist_ok=True)
            kept.parent.mkdir(parents=True, exist_ok=True)
            done.append((new, home, kept))
            if home.exists():
                os.rename(home, kept)
            os.rename(new, home)
    except BaseException:
        for new, home, kept in done:
            if not new.exists():
                shutil.rmtree(home)
            if kept.exists():
                os.rename(kept, home)
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
    for folder in publish(sys.argv[1]):
        print(folder.relative_to(ROOT))
