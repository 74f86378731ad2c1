"""Check the sdist and the wheel of a release, as part of `make release`.

    python tools/check_release.py dist

The script checks the names and sizes of the files. Then it installs the wheel with only JAX into a
fresh environment outside of the checkout. There it runs the Python code of README.md in order. The
code must print the output that README.md shows, with and without importing Keras first.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from email.parser import BytesParser
from pathlib import Path

HELD = ("keras_permix", "weights", "zoo")  # folders of the sdist
NEEDED = ("Name", "Version", "Summary", "License-Expression", "Requires-Python", "Description")
ROOT = Path(__file__).resolve().parents[1]
WHEEL_LIMIT = 25 * 10**6  # bytes
LEFT_OUT = {  # fetched from `WEIGHTS_URL`
    f"keras_permix/weights/{name}/model.weights.h5"
    for name in ("cspvit/imagenette", "simpletron/sst2")
}


def check(dist):
    """Check the only sdist and the only wheel in a folder.

    Raises:
        ValueError: for wrong files, metadata or output.
        subprocess.CalledProcessError: for a command or a snippet that fails.
    """
    (sdist,), (wheel,) = Path(dist).glob("*.tar.gz"), Path(dist).glob("*.whl")
    with tarfile.open(sdist) as file:
        names = [name.partition("/")[2] for name in file.getnames()]
        check_names(names)
        presets = {name for name in names if name.startswith(("weights/", "zoo/"))}
        files = {f"keras_permix/{name}" for name in presets if "." in name.split("/")[-1]}
    with zipfile.ZipFile(wheel) as file:
        check_names(file.namelist(), ("keras_permix",))
        files.add("keras_permix/py.typed")  # marks the package as typed
        if wheel.stat().st_size > WHEEL_LIMIT:
            raise ValueError(
                f"A wheel must contain at most {WHEEL_LIMIT:,} bytes. "
                f"Received: {wheel.stat().st_size:,}"
            )
        if lacking := sorted(files - LEFT_OUT - set(file.namelist())):
            raise ValueError(
                f"The wheel must contain types and the sdist's presets. It lacks {lacking}"
            )
        (metadata,) = (name for name in file.namelist() if name.endswith("dist-info/METADATA"))
        check_metadata(file.read(metadata))
    with tempfile.TemporaryDirectory() as folder:
        try_wheel(wheel.resolve(), Path(folder))


def check_names(names, held=HELD):
    """Raise for files in other folders, such as those of tests and tools."""
    folders = {name.split("/")[0] for name in names if "/" in name}
    others = sorted(name for name in folders - set(held) if not name.endswith(".dist-info"))
    if others:
        raise ValueError(
            f"A release contains {', '.join(held)} and no other folder. Received: {others}"
        )


def check_metadata(content):
    """Raise if a release lacks metadata, or its description has relative links."""
    metadata = BytesParser().parsebytes(content)
    description = metadata.get_payload(decode=True).decode("utf-8")
    said = {**metadata, "Description": description.strip()}
    if lacking := [key for key in NEEDED if not said.get(key)]:
        raise ValueError(f"The metadata of a release must have {', '.join(NEEDED)}. No {lacking}")
    links = re.findall(r'\]\((?!https?:)([^)]*)\)|(?:src|href)="(?!https?:)([^"]*)"', description)
    if links:
        found = [link or source for link, source in links]
        raise ValueError(f"A description must contain only absolute links. Received: {found}")


def try_wheel(wheel, folder):
    """Install a wheel with one backend into a fresh environment, and run README.md's code.

    Raises:
        ValueError: for a snippet whose output differs from that in README.md.
        subprocess.CalledProcessError: for a command or a snippet that fails.
    """
    venv.create(folder / "environment", with_pip=True)
    shutil.copytree(ROOT / "examples", folder / "examples")
    environment = {**os.environ, "KERAS_HOME": str(folder)}
    for name in ("KERAS_BACKEND", "PYTHONPATH"):
        environment.pop(name, None)

    def run(program, *arguments, **options):
        command = [folder / "environment" / "bin" / program, *arguments]
        return subprocess.run(command, cwd=folder, env=environment, check=True, **options)

    def show(snippet, printed):
        output = run("python", "-c", snippet, stdout=subprocess.PIPE, encoding="utf-8").stdout
        if output != printed:
            raise ValueError(f"README.md shows {printed!r} of {snippet}. It printed {output!r}")

    first, *others = snippets((ROOT / "README.md").read_text(encoding="utf-8"))
    run("python", "-m", "pip", "install", "--quiet", f"{wheel}[jax]")
    run("permix", "--version")
    run("permix", "list")
    show(*first)
    run("permix", "predict", "cspvit/cifar10_small", "examples/images/cat.png")
    for snippet, printed in others:
        show(snippet, printed)
    run("permix", "backend", "jax")
    for snippet, printed in (first, *others):
        show(f"import keras\n{snippet}", printed)


def snippets(page):
    """Return the Python snippets of a page, each with the output that its comments show."""
    found = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return [(one, "".join(re.findall(r"print\(.*\)  # (.*\n)", one))) for one in found]


if __name__ == "__main__":
    try:
        check(*sys.argv[1:])
    except (ValueError, subprocess.CalledProcessError) as problem:
        sys.exit(f"release: {problem}")
