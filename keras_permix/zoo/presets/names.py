"""Find presets by name, folder or handle, and check the arguments of models in them."""

import dataclasses
import difflib
import inspect
import os
from collections.abc import Collection
from typing import Any

from keras_permix._typing import StrPath
from keras_permix.layers.mixers import MIXERS, arguments_of
from keras_permix.recipes.find import known_presets
from keras_permix.recipes.load import load_recipe
from keras_permix.utils.checks import check_names
from keras_permix.zoo.presets.folder import (
    CONFIG_FILE,
    METADATA_FILE,
    WEIGHTS_FILE,
    PresetFiles,
    open_preset,
)
from keras_permix.zoo.presets.handles import open_handle
from keras_permix.zoo.registry import MODELS

# URL of the files that a wheel omits, at URL/CLASS/PRESET/FILE. None: unpublished.
WEIGHTS_URL: str | None = None

# Keys that name a Keras object. The configuration of a model may only name dtype policies.
OBJECT_KEYS = ("class_name", "module", "registered_name")
POLICIES = [
    (name, module, None)
    for module in ("keras", "keras.dtype_policies")
    for name in (
        "DTypePolicy",
        "DTypePolicyMap",
        "Int4DTypePolicy",
        "QuantizedDTypePolicy",
        "QuantizedFloat8DTypePolicy",
    )
]


@dataclasses.dataclass(frozen=True)
class PresetInfo:
    """Describe a preset.

    Args:
        name: `class/preset` for a preset of the package, else the folder or handle.
        class_name: Class of the model.
        files: Files of the preset, or `None` if there is only a recipe.

    Example:
        >>> from keras_permix.zoo import preset_info
        >>> info = preset_info("cspvit/test")
        >>> info.has_weights, info.parameters, info.config["num_layers"]
        (True, 1187, 2)
    """

    name: str
    class_name: str
    files: PresetFiles | None

    @property
    def metadata(self) -> dict[str, Any]:
        """Return the object in `metadata.json`, empty for a recipe without a preset."""
        return self.files.metadata if self.files else {}

    @property
    def has_weights(self) -> bool:
        """Return whether the weights exist or can be downloaded."""
        return self.files is not None and self.files.has(WEIGHTS_FILE)

    @property
    def parameters(self) -> int | None:
        """Return the number of parameters, or `None` if unknown."""
        return self.metadata.get("parameter_count")

    @property
    def scores(self) -> dict[str, float | None] | None:
        """Return the measured scores by names such as `cifar10/test/top1`, or `None`."""
        return self.metadata.get("scores")

    @property
    def config(self) -> dict[str, Any]:
        """Return the arguments of the model."""
        if self.files is not None:
            return self.files.json(CONFIG_FILE)["config"]
        model = load_recipe(self.name).model
        return {name: value for name, value in model.items() if name != "class_name"}


def list_presets() -> dict[str, PresetInfo]:
    """List the presets of the package, with or without weights.

    Returns:
        A dict from names `class/preset` to `PresetInfo`.

    Example:
        >>> from keras_permix.zoo import list_presets
        >>> list_presets()["cspvit/test"].has_weights
        True
    """
    return {name: _info(name, folder) for name, folder in _known().items()}


def preset_info(preset: StrPath | PresetInfo) -> PresetInfo:
    """Describe one preset, given by name, folder or handle.

    Args:
        preset: See `from_preset`; a name is `class/preset`.

    Returns:
        A `PresetInfo`.

    Raises:
        ValueError: for an unknown name.

    Example:
        >>> from keras_permix.zoo import preset_info
        >>> preset_info("cspvit/test").class_name
        'CSPViT'
    """
    return find_preset(preset, None)


def untrained(info: PresetInfo) -> str:
    """Return the error message for a preset without weights."""
    folder, _, preset = info.name.partition("/")
    trained = {
        name.partition("/")[2]: name
        for name, other in list_presets().items()
        if other.has_weights and name.startswith(f"{folder}/") and not name.endswith("/test")
    }
    advice = f"Trained presets of this class: {', '.join(trained.values())}. " if trained else ""
    if similar := difflib.get_close_matches(preset, trained, n=2):
        lines = (f'`{info.class_name}.from_preset("{name}")`' for name in similar)
        advice += f"Load a similar one by {' or '.join(lines)}. "
    return (
        f"The preset {info.name} has no weights. {advice}"
        f"To train {info.name}, run `permix train {info.name}`"
    )


def find_preset(preset: StrPath | PresetInfo, cls: type[Any] | None) -> PresetInfo:
    """Find a preset, which must be of class `cls` if given; a name may then omit the class."""
    name, known = str(preset), _known() if isinstance(preset, str) else {}
    if cls is not None and "/" not in name:
        name = f"{cls.__name__.lower()}/{name}"
    if isinstance(preset, PresetInfo):
        info = preset
    elif "://" in str(preset):
        info = _info_of_files(str(preset), open_handle(str(preset)))
    elif name in known:
        if os.path.isfile(os.path.join(preset, METADATA_FILE)):
            raise ValueError(
                f"`preset` must be unambiguous: write ./{preset} for the folder, or rename it for "
                f"the package's preset {name}. Received: {preset!r}"
            )
        info = _info(name, known[name])
    elif os.path.isdir(str(preset)):
        info = _info_of_files(str(preset), open_preset(preset))
    else:
        raise ValueError(_unknown(str(preset), name, cls))
    if cls is not None and info.class_name != cls.__name__:
        kind = info.class_name
        raise ValueError(f"`preset` must be of {cls.__name__}. Received: {info.name!r} of {kind}")
    return info


def _known():
    """Return the presets and recipes of the classes of the package."""
    classes = {name.lower() for name in MODELS}
    found = known_presets().items()
    return {name: folder for name, folder in found if name.split("/")[0] in classes}


def _info(name, folder):
    if folder is None:
        (class_name,) = (known for known in MODELS if known.lower() == name.split("/")[0])
        return PresetInfo(name, class_name, None)
    url = WEIGHTS_URL and f"{WEIGHTS_URL}/{name}"
    return _info_of_files(name, open_preset(folder, url))


def _info_of_files(name, files):
    """Return the `PresetInfo` of a preset's files, and check its configuration."""
    spec, path = files.json(CONFIG_FILE), files.folder / CONFIG_FILE
    found = [spec.get(key) for key in OBJECT_KEYS]
    class_name = found[0]
    right = found[1:] == ["keras_permix.zoo", f"keras_permix>{class_name}"]
    if class_name not in list(MODELS) or not right or not isinstance(spec.get("config"), dict):
        raise ValueError(f"`{path}` must be of a class of keras_permix.zoo. Received: {found}")
    check_plain(spec["config"], path)
    return PresetInfo(name, class_name, files)


def _unknown(preset, name, cls):
    known = list(_known())
    same = [n for n in known if n.split("/")[-1] == preset]
    if cls is None:
        names, hint = "see `permix list`", ""
        family = [n for n in known if n.startswith(f"{preset.lower()}/")]
        close = same or family or difflib.get_close_matches(name.lower(), known, n=1)
    else:
        own = [n for n in known if n.startswith(f"{cls.__name__.lower()}/")]
        names = ", ".join(own)
        hint = f" Another class has it: {', '.join(same)}." if same else ""
        close = [] if same else difflib.get_close_matches(name, own, n=1)
    hint += f" Did you mean {' or '.join(close)}?" if close else ""
    return (
        f"`preset` must be a name ({names}), a folder that exists, or a handle like hf://….{hint} "
        f"Received: {preset!r}"
    )


def check_plain(value: Any, path: StrPath) -> None:
    """Raise ValueError if a configuration names objects other than dtype policies."""
    if isinstance(value, dict) and not value.keys().isdisjoint(OBJECT_KEYS):
        found = tuple(value.get(key) for key in OBJECT_KEYS)
        if found not in POLICIES:
            raise ValueError(
                f"`{path}` must not name objects other than dtype policies. To store custom "
                f"layers, use `model.save`. Received: {found}"
            )
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            check_plain(part, path)


def check_arguments(cls: type[Any], given: Collection[str]) -> None:
    """Raise ValueError for unknown arguments of a model, also for those of its mixers."""
    own = inspect.signature(cls.__init__).parameters.keys() - {"self", "kwargs"}
    known = own | {*cls.head_arguments, "labels", "name", "trainable"}
    unknown = sorted(set(given) - known)
    inner = [name for name in unknown if any(name in arguments_of(mixer) for mixer in MIXERS)]
    if "mixer" in known and inner:
        raise ValueError(f"Arguments of mixers must be in `mixer`. Received: {inner}")
    check_names(cls.__name__, given, known)
