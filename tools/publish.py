"""Publish a finished run: copy the preset to `weights/`, and card, log and curves to `zoo/`.

    python tools/publish.py runs/cspvit/cifar10_small

The preset gets the name of the run. Either all files are copied, or none.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from keras_permix.training.run import read_record
from keras_permix.utils.files import write_text
from keras_permix.zoo import preset_info

ROOT = Path(__file__).resolve().parents[1]
REPORT = ("README.md", "log.csv", "curves.png")
PREFIX = ".publish"  # of the temporary folder
BEGUN = "begun"  # file with the name of the preset, written once all files are copied


def publish(run, root=ROOT):
    """Copy the results of a run into the repository `root`.

    Args:
        run: Folder of a finished run.
        root: The repository.

    Returns:
        The two folders of the published preset.

    Raises:
        ValueError: for a smoke run, a recipe outside the repository, or a damaged preset.
        OSError: for a missing file, or a folder that cannot be written.
    """
    run, root = Path(run), Path(root)
    record = read_record(run)
    _check(record, run)
    recover(root)
    with tempfile.TemporaryDirectory(dir=root, prefix=PREFIX) as folder:
        moves = moves_of(Path(folder), record["name"], root)
        (preset, weights, _), (report, published, _) = moves
        shutil.copytree(run / "preset", preset)
        if published.is_dir():
            shutil.copytree(published, report)
        report.mkdir(exist_ok=True)
        for file in REPORT:
            shutil.copy(run / file, report / file)
        write_text(Path(folder, BEGUN), record["name"])
        try:
            for new, home, backup in moves:
                for path in (home, backup):
                    path.parent.mkdir(parents=True, exist_ok=True)
                if home.exists():
                    os.rename(home, backup)
                os.rename(new, home)
        except BaseException:
            put_back(moves)
            raise
    return [weights, published]


def moves_of(folder, name, root):
    """Return (new, final, backup) paths of the preset, and of its card, log and curves."""
    homes = (root / "weights" / name, root / "zoo" / name)
    news = (folder / "preset", folder / "report")
    return [
        (new, home, folder / "old" / home.relative_to(root))
        for new, home in zip(news, homes, strict=True)
    ]


def recover(root):
    """Undo a publication that was killed before its last step, and remove temporary folders."""
    for folder in root.glob(f"{PREFIX}*"):
        if (folder / BEGUN).is_file():
            moves = moves_of(folder, (folder / BEGUN).read_text(encoding="utf-8"), root)
            if any(new.exists() for new, *_ in moves):
                put_back(moves)
        shutil.rmtree(folder)


def put_back(moves):
    """Restore the old folders; nothing is lost if the process is killed after any step."""
    for new, home, backup in moves:
        if not new.exists():
            os.rename(home, new)
        if backup.exists():
            os.rename(backup, home)


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
