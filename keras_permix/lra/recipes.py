"""Make the recipes of the Long Range Arena from `tables.toml`."""

from pathlib import Path
from typing import Any

from keras_permix.lra.published import TASKS, published_score
from keras_permix.recipes.load import read_toml
from keras_permix.recipes.recipe import merge
from keras_permix.utils.checks import check_choice

SCALES = ("small", "paper")
TABLES = read_toml(Path(__file__).with_name("tables.toml"))
MIXERS = TABLES["mixers"]
WITH_HEADS = ("transformer", "simpletron", "butterfly", "linear", "linformer", "performer", "local")
# Variants of the class `SimpleTRON`, which takes texts, by model name.
SIMPLETRONS = {
    "simpletron": "simple", "simpletron_res": "simple_res", "simpletron_resl": "simple_resl"
}  # fmt: skip
MEGAS = ("mega", "mega_chunk", "csp_mega")
MODELS = tuple(dict.fromkeys((*MIXERS, *SIMPLETRONS, *MEGAS)))
OF_PATH_X = (*MEGAS, "butterfly")
TEXTS = ("listops", "text", "retrieval")

LENGTHS = {"listops": 2000, "text": 4000, "retrieval": 4000}
MEGA_LENGTHS = {"listops": 2002, "text": 4002, "retrieval": 4002}  # as in the released code


def lra_recipe(task: str, model: str, scale: str = "small", seed: int = 0) -> dict[str, Any]:
    """Return the recipe of a model for a task, as nested dicts for `make_recipe`.

    The scale "paper" has the sizes of the papers, and "small" reduced tasks with one size for all
    models.

    Example:
        >>> lra_recipe("listops", "csp", "paper")["optimizer"]["learning_rate"]
        0.05
    """
    check_choice("task", task, TASKS)
    check_choice("model", model, MODELS)
    check_choice("scale", scale, SCALES)
    if task == "pathx" and (scale == "small" or model not in OF_PATH_X):
        rule = f"`pathx` requires `scale='paper'` and a model of {OF_PATH_X}"
        raise ValueError(f"{rule}. Received: {model=}, {scale=}")
    if task not in TEXTS and model in SIMPLETRONS and model not in MIXERS:
        raise ValueError(f"`{model}` requires a task of texts {TEXTS}. Received: task={task!r}")
    base = merge(TABLES["data"][task], dict(seed=seed))
    if scale == "small":
        return merge(base, _small(task, model))
    if model in MEGAS:
        own = _mega(task, model)
    else:
        own = _butterfly(task) if model == "butterfly" else _encoder(task, model)
    paper = None
    if published := published_score(task, model):
        paper = dict.fromkeys(("accuracy", "top1"), f"{published[0]} %")
        paper["note"] = f"{published[1]}."
    return merge(merge(base, own), dict(paper=paper))


def _encoder(task, model):
    """Return the values of the Transformer encoder of the Long Range Arena, or of SimpleTRON."""
    text = task in TEXTS
    tron = text and model in SIMPLETRONS
    rows = TABLES["simpletron" if tron else "csp"]
    rows = {**rows, **TABLES["slice"]} if model.startswith("slice") else rows
    *training, hidden_dim, inner, mlp_dim, num_layers, heads = rows[task]
    sizes = dict(
        hidden_dim=hidden_dim, mlp_dim=mlp_dim, num_layers=num_layers, dropout=training[-1],
        **_length(task, LENGTHS.get(task)),
    )  # fmt: skip
    if tron:
        return dict(model={**sizes, **_simpletron(model, heads)}, **_training(training, "rsqrt"))
    sizes |= dict(
        class_name="LRATransformer", inner_dim=inner, mixer=_mixer(model, heads),
        positions="sinusoid" if text else "learned",
    )  # fmt: skip
    schedule = "rsqrt" if text else "cosine_cycles"
    return dict(model=sizes, **_training(training, schedule, dict(beta_2=0.98, epsilon=1e-9)))


def _length(task, tokens):
    return {"max_sequence_length": tokens} if task in TEXTS else {}


def _simpletron(model, heads):
    return dict(
        class_name="SimpleTRON", num_heads=heads, variant=SIMPLETRONS[model], num_segments=None,
        use_class_token=True, pooler="relu",
    )  # fmt: skip


def _butterfly(task):
    batch, epochs, steps, warmup, tokens, block = TABLES["butterfly"][task]
    mixer = {"name": "butterfly_attention", "num_heads": 2, "block_size": block}
    model = dict(
        class_name="LRATransformer", hidden_dim=64, num_layers=2, mlp_dim=128, mixer=mixer,
        use_bias=True, activation="gelu", positions="learned", pooling="mean_of_length",
        head_dims=(128,), compare_pairs=True, embedding_stddev=0.02, dropout=0.1,
        **_length(task, tokens),
    )  # fmt: skip
    if task == "pathx":
        mixer["num_heads"] = model["num_layers"] = 4
        training = _training((batch, epochs, steps, 3e-4, warmup, 1e-3, 0.1), "cosine")
        return dict(model=model, **training)
    # One cycle: a linear warm-up from 1/25 of the learning rate, then a linear decay.
    training = _training((batch, epochs, steps, 1e-4, warmup, 0, 0.1), "linear")
    return merge(dict(model=model, **training), dict(schedule=dict(warmup_start=4e-6)))


def _mega(task, model):
    *training, hidden_dim, hidden, shared, num_layers, norm = TABLES["mega"][task]
    text = task in TEXTS
    attention = "softmax" if text else "laplace"
    csp = TABLES["csp_in_mega"].get(task, {"name": "csp", "group_size": None})
    sizes = dict(
        class_name="MEGA", hidden_dim=hidden_dim, inner_dim=hidden, shared_dim=shared,
        num_layers=num_layers, norm=norm, norm_first=not text, dropout=training[-1],
        truncation=4096 if task == "pathx" else 1024,
        mixer=csp if model == "csp_mega" else attention,
        **_length(task, MEGA_LENGTHS.get(task)),
        **(dict(mean=(0.48,), std=(0.24,)) if task == "image" else {}),
    )  # fmt: skip
    if model == "mega_chunk":
        sizes["chunk_size"] = 4096 if task == "pathx" else 128
    optimizer = dict(beta_2=0.98, epsilon=1e-8, global_clipnorm=1.0)
    schedule: dict[str, Any] = dict(warmup_start=1e-7)
    if task == "pathx":
        schedule["warmup_power"] = 2
    if task == "retrieval":
        schedule["total_steps"] = 91_960  # The released code stops long before.
    recipe = dict(model=sizes, **_training(training, "linear", optimizer))
    recipe = merge(recipe, dict(schedule=schedule))
    return recipe if model == "csp_mega" else merge(recipe, TABLES["of_mega"].get(task, {}))


def _training(row, schedule, optimizer=None):
    """Return the training values of a table's row."""
    batch, epochs, steps, rate, warmup, decay, _ = row
    optimizer = {"learning_rate": rate, **(optimizer or {})}
    optimizer |= {"name": "adamw", "weight_decay": decay} if decay else {"name": "adam"}
    return dict(
        optimizer=optimizer,
        schedule=dict(name=schedule, warmup_steps=warmup),
        batch_size=batch,
        epochs=epochs,
        steps_per_epoch=steps,
        validation_samples=2000,
    )


def _mixer(model, heads):
    return {**MIXERS[model], **({"num_heads": heads} if model in WITH_HEADS else {})}


def _small(task, model):
    if model in MEGAS:
        mixer = {"name": "csp", "group_size": 2} if model == "csp_mega" else "laplace"
        own = dict(class_name="MEGA", inner_dim=64, shared_dim=16, ema_dim=4, mixer=mixer)
        if model == "mega_chunk":
            own["chunk_size"] = 32
    elif model in SIMPLETRONS and task in TEXTS:
        own = _simpletron(model, heads=4)
    else:
        mixer = _mixer(model, heads=4)
        if model == "csp":
            mixer["group_size"] = 2  # A single group, as in the papers, equals "slice".
        if model == "butterfly":
            mixer["block_size"] = 32 if task == "text" else 16  # Two blocks mix all tokens.
        own = dict(
            class_name="LRATransformer", mixer=mixer, positions="learned", pooling="mean",
            head_dims=(64,), embedding_stddev=0.02,
        )  # fmt: skip
    training = merge(TABLES["small_training"], TABLES["small"][task])
    return merge(training, dict(model={**TABLES["small_size"], **own}))
