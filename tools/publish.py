"""Publish a finished run: copy the preset to `weights/`, and card, log and curves to `zoo/`.

    python tools/publish.py runs/cspvit/cifar10_small

The preset gets the name of the run. The run is checked before a file of the repository changes.
"""

import shutil
import sys
from pathlib import Path

from keras_permix.training.card import BESIDE
from keras_permix.training.run import read_record
from keras_permix.zoo import preset_info

ROOT = Path(__file__).resolve().parents[1]
REPORT = ("README.md", "log.csv", "curves.png")


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
    if record["smoke"]:
        raise ValueError(f"A smoke run is not published. Received: {run}")
    if not record["recipe"].startswith("zoo/"):
        raise ValueError(
            "A published preset must have its recipe in the repository's `zoo/`. "
            f"Received: {record['recipe']}"
        )
    preset_info(run / "preset").files.verify()
    report = {file: (run / file).read_bytes() for file in REPORT}
    weights, published = (root / folder / record["name"] for folder in ("weights", "zoo"))
    if weights.exists():
        shutil.rmtree(weights)
    shutil.copytree(run / "preset", weights)
    name = record["name"].split("/")[-1]
    report["README.md"] = report["README.md"].replace(BESIDE.encode(), f'"{name}")'.encode())
    published.mkdir(parents=True, exist_ok=True)
    for file, content in report.items():
        (published / file).write_bytes(content)
    return [weights, published]


if __name__ == "__main__":
    for folder in publish(sys.argv[1]):
        print(folder.relative_to(ROOT))
