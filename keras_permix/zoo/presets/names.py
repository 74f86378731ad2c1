"""Find presets by name, folder or handle, and load them."""

import dataclasses
import difflib
import errno
import os
from pathlib import Path
from typing import Any

from keras_permix._typing import Labels, Model, StrPath
from keras_permix.preset_folders import known_presets
from keras_permix.recipe import load_recipe
from keras_permix.safe_files import recover_folder
from keras_permix.zoo.presets.config import (
    check_arguments,
    is_quantized,
    model_class,
    with_own_mixer,
)
from keras_permix.zoo.presets.folder import (
    CONFIG_FILE,
    METADATA_FILE,
    WEIGHTS_FILE,
    PresetFiles,
    open_preset,
)
from keras_permix.zoo.presets.handles import open_handle
from keras_permix.zoo.presets.labels import check_labels
from keras_permix.zoo.presets.transfer import transfer_weights
from keras_permix.zoo.presets.weights import load_weights_content
from keras_permix.zoo.registry import MODELS

# Arguments that a preset may be loaded with as it is stored.
HARMLESS = {"dtype", "name", "trainable"}


@dataclasses.dataclass(frozen=True)
class PresetInfo:
    """What is known of a preset.

    Args:
        name: `class/preset` for a preset that the package knows, else the folder or handle.
        class_name: Class of the model.
        files: Its files, or `None` where there is only a recipe.

    Example:

    >>> from keras_permix.zoo import preset_info
    >>> info = preset_info("cspvit/test")
    >>> info.has_weights, info.parameters, info.config["depth"]
    (True, 1187, 2)
    """

    name: str
    class_name: str
    files: PresetFiles | None

    @property
    def metadata(self) -> dict[str, Any]:
        """What `metadata.json` says; empty where there is only a recipe."""
        return self.files.metadata if self.files else {}

    @property
    def has_weights(self) -> bool:
        """Whether the weights are here or can be fetched."""
        return self.files is not None and self.files.has(WEIGHTS_FILE)

    @property
    def parameters(self) -> int | None:
        """Number of parameters, or `None` if unknown."""
        return self.metadata.get("parameter_count")

    @property
    def scores(self) -> dict[str, float | None] | None:
        """Measured scores by names such as `cifar10/test/top1`; `None` if nobody measured any."""
        return self.metadata.get("scores")

    @property
    def config(self) -> dict[str, Any]:
        """Arguments of the model."""
        if self.files is None:
            return _recipe_config(self.name)
        return self.files.json(CONFIG_FILE)["config"]


def list_presets() -> dict[str, PresetInfo]:
    """All presets that the package knows, with or without weights.

    Returns:
        A dict from names `class/preset` to `PresetInfo`.

    Example:

    >>> from keras_permix.zoo import list_presets
    >>> list_presets()["cspvit/test"].has_weights
    True
    """
    return {name: _info(name, folder) for name, folder in _known().items()}


def preset_info(preset: StrPath | PresetInfo) -> PresetInfo:
    """What is known of one preset, given by name, folder or handle.

    Args:
        preset: As for `from_preset`; a name is `class/preset`.

    Returns:
        A `PresetInfo`.

    Raises:
        ValueError: for an unknown name.

    Example:

    >>> from keras_permix.zoo import preset_info
    >>> preset_info("cspvit/test").class_name
    'CSPViT'
    """
    return _find(preset, None)


def untrained(info: PresetInfo) -> str:
    """What to say of a preset without weights."""
    return f"The preset {info.name} has no weights yet. Train it with `permix train {info.name}`"


def load_preset(
    cls: type[Any] | None,
    preset: StrPath | PresetInfo,
    *,
    load_weights: bool = True,
    labels: Labels | None = None,
    **overrides: Any,
) -> Model:
    """Build the model of a preset; see `ZooModel.from_preset`.

    Args:
        cls: The class that the preset must be of, or `None` for any.
        preset: Name, folder or handle, or the `PresetInfo` of one.
        load_weights: Whether to load the weights.
        labels: Names of the outputs. `None`: the preset's, if the model has as many outputs.
        **overrides: Arguments of the model to change.
    """
    info = _find(preset, cls)
    found = MODELS[info.class_name]
    if cls is not None and found is not cls:
        raise ValueError(
            f"`{cls.__name__}.from_preset` loads presets of {cls.__name__}, and this one is of "
            f"{found.__name__}: use `{found.__name__}.from_preset`. Received: {str(preset)!r}"
        )
    if load_weights and (info.files is None or WEIGHTS_FILE not in info.files.names):
        raise ValueError(
            f"{untrained(info)}, or in Python pass `load_weights=False` for fresh ones. "
            "Received: load_weights=True"
        )
    # Without its name: Keras makes new ones, so that several presets stand in one model.
    config = {key: value for key, value in info.config.items() if key != "name"}
    _check_overrides(found, config, overrides)
    overrides = with_own_mixer(config, overrides)
    if info.files:
        info.files.verify(skip=(WEIGHTS_FILE,))
        config |= {key: _asset(info, file) for key, file in found.asset_files.items()}
    changed = {key: value for key, value in overrides.items() if config.get(key) != value}
    if info.files and set(changed) <= HARMLESS:
        model = stored = _stored_model(info, found, config, overrides)
    else:
        kept = found.kept(config, overrides) if load_weights else {}
        model, stored = found.from_config({**config, **kept, **overrides}), None
    if labels is not None:
        model.labels = labels
    if load_weights:
        stored = stored or _stored_model(info, found, config)
        content = info.files.content(WEIGHTS_FILE)
        load_weights_content(stored, content, info.files.folder / WEIGHTS_FILE)
        if stored is not model:
            transfer_weights(stored, model, changed)
    if labels is None:
        model.labels = _stored_labels(info, model, changed)
    return model


def _asset(info, file):
    """The text of a file that belongs to a preset, or `None` where it has none."""
    if file not in info.files.names:
        return None
    try:
        return info.files.content(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"`{info.files.folder / file}` must be a text in UTF-8. Received: {error}"
        ) from error


def _stored_labels(info, model, changed):
    """What a preset calls the outputs of a model; those of another head are forgotten."""
    labels, outputs = info.metadata.get("labels"), model.output_shape[-1]
    try:
        return check_labels(labels, outputs)
    except ValueError as error:
        if set(changed) <= HARMLESS:
            raise ValueError(
                f"`{info.files.folder / METADATA_FILE}` must name the outputs of its model. {error}"
            ) from error
        return None


def _stored_model(info, cls, config, overrides=None):
    """The model of a preset, with fresh weights, as many as the preset says."""
    path = info.files.folder / CONFIG_FILE
    try:
        model = cls.from_config({**config, **(overrides or {})})
    except Exception as error:  # Of wrong values, each layer and backend makes its own.
        if overrides:
            raise
        raise ValueError(
            f"`{path}` must hold a configuration that a {cls.__name__} can be built from. "
            f"Received: {type(error).__name__}: {error}"
        ) from error
    if model.count_params() != info.parameters:
        raise ValueError(
            f"The `parameter_count` of {info.files.folder / METADATA_FILE} must be that of the "
            f"model which {path} configures, {model.count_params():,}. "
            f"Received: {info.parameters:,}"
        )
    return model


def _find(preset, cls):
    if isinstance(preset, PresetInfo):
        return preset
    if not isinstance(preset, str | os.PathLike):
        raise ValueError(f"`preset` must be a name, a folder or a handle. Received: {preset!r}")
    if "://" in str(preset):
        return _info_of_files(str(preset), open_handle(str(preset)))
    name = str(preset)
    if cls is not None and "/" not in name:
        name = f"{cls.__name__.lower()}/{name}"
    known = {} if isinstance(preset, Path) else _known()
    if name in known:
        return _info(name, known[name])
    if _is_folder(preset):
        return _info(str(preset), preset)
    raise ValueError(_unknown(str(preset), name, cls))


def _is_folder(preset):
    """Whether `preset` is a folder, perhaps after taking it back from a save that was killed."""
    try:
        recover_folder(preset)
        return preset != "" and Path(preset).is_dir()
    except ValueError:  # A null byte.
        return False
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return False


def _known():
    """Presets and recipes that the package knows, of the classes that it has."""
    classes = _classes_by_folder()
    return {
        name: folder for name, folder in known_presets().items() if name.split("/")[0] in classes
    }


def _classes_by_folder():
    return {name.lower(): name for name in MODELS}


def _info(name, folder):
    if folder is None:
        return PresetInfo(name, _classes_by_folder()[name.split("/")[0]], None)
    return _info_of_files(name, open_preset(folder))


def _info_of_files(name, files):
    spec = files.json(CONFIG_FILE)
    return PresetInfo(name, model_class(spec, files.folder / CONFIG_FILE).__name__, files)


def _recipe_config(name):
    model = dict(load_recipe(name)["model"])
    model.pop("class_name", None)
    return model


def _check_overrides(cls, config, overrides):
    check_arguments(cls, overrides)
    if is_quantized(config) and set(overrides) - {"name", "trainable"}:
        raise ValueError(
            "A quantized preset is loaded as it is: its weights fit no other dtype, head or size. "
            f"Received: {overrides}"
        )


def _unknown(preset, name, cls):
    known = list(_known())
    same = [n for n in known if n.split("/")[-1] == preset]
    if cls is None:
        names, hint = "as `permix list` prints them", ""
        close = same or difflib.get_close_matches(name, known, n=1)
    else:
        own = [n for n in known if n.startswith(f"{cls.__name__.lower()}/")]
        names = ", ".join(own)
        hint = f" Another class has it: {', '.join(same)}." if same else ""
        close = difflib.get_close_matches(name, own, n=1)
    hint += f" Did you mean {' or '.join(close)}?" if close else ""
    return (
        f"`preset` must be a name ({names}), a folder, or a handle like hf://… or "
        f"https://….{hint} Received: {preset!r}"
    )
