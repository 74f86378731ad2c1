"""Put a finished run into the repository: preset to `weights/`, card, log and curves to `zoo/`.

python tools/publish.py runs/cspvit/cifar10_small cspvit/cifar10_small
"""

import shutil
import subprocess
import sys
from pathlib import Path

from keras_permix.zoo.presets.writer import update_metadata

ROOT = Path(__file__).resolve().parents[1]


def publish(run, name):
    """Copy what the run of preset `name` made, and note the commit it was made with."""
    preset, story = ROOT / "weights" / name, ROOT / "zoo" / name
    shutil.copytree(run / "preset", preset, dirs_exist_ok=True)
    for file in ("README.md", "log.csv", "curves.png"):
        shutil.copy(run / file, story / file)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    update_metadata(preset, commit=head.stdout.strip())
    print(f"{preset.relative_to(ROOT)} and {story.relative_to(ROOT)}")


if __name__ == "__main__":
    publish(Path(sys.argv[1]), sys.argv[2])
