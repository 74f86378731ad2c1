"""Define the recipes of the Long Range Arena: a table per paper, and one of small tasks.

Values that a paper's table omits are those of Sliceformer's released code, the Transformer encoder
of the Long Range Arena. Weight decay is decoupled, as in that code.
"""

from typing import Any

from keras_permix.lra.published import TASKS, published_score
from keras_permix.recipes.recipe import merge
from keras_permix.utils.checks import check_choice

SCALES = ("small", "paper")
# Mixers of an `LRATransformer` by model name; mixers with heads receive `num_heads`.
MIXERS: dict[str, dict[str, Any]] = {
    "transformer": {"name": "attention"},
    "csp": {"name": "csp", "group_size": None},
    "slice": {"name": "slice_sort"},
    "slice_interleave": {"name": "slice_sort", "order": "interleave"},
    "slice_max_exchange": {"name": "max_exchange"},
    "simpletron": {"name": "simple_attention"},
    "butterfly": {"name": "butterfly_attention"},
    "linear": {"name": "linear_attention"},
    "linformer": {"name": "linformer"},
    "performer": {"name": "performer"},
    "local": {"name": "local_attention"},
    "fourier": {"name": "fourier"},
}
WITH_HEADS = ("transformer", "simpletron", "butterfly", "linear", "linformer", "performer", "local")
# Variants of the class `SimpleTRON`, which takes texts, by model name.
SIMPLETRONS = {
    "simpletron": "simple", "simpletron_res": "simple_res", "simpletron_resl": "simple_resl"
}  # fmt: skip
MEGAS = ("mega", "mega_chunk", "csp_mega")
MODELS = tuple(dict.fromkeys((*MIXERS, *SIMPLETRONS, *MEGAS)))
OF_PATH_X = (*MEGAS, "butterfly")
TEXTS = ("listops", "text", "retrieval")

# Task -> data, and arguments of the model that depend on them.
DATA: dict[str, dict[str, Any]] = {
    "listops": dict(data=dict(name="listops"), model=dict(vocabulary_size=16, num_classes=10)),
    "text": dict(data=dict(name="imdb"), model=dict(vocabulary_size=257, num_classes=2)),
    "retrieval": dict(
        data=dict(name="retrieval"), model=dict(vocabulary_size=257, num_classes=2, pairs=True)
    ),
    "image": dict(data=dict(name="cifar10_gray"), model=dict(image_size=32, num_classes=10)),
    "pathfinder": dict(data=dict(name="pathfinder"), model=dict(image_size=32, num_classes=2)),
    "pathx": dict(data=dict(name="pathfinder"), model=dict(image_size=128, num_classes=2)),
}  # fmt: skip
LENGTHS = {"listops": 2000, "text": 4000, "retrieval": 4000}
MEGA_LENGTHS = {"listops": 2002, "text": 4002, "retrieval": 4002}  # as in the released code

# Batch size, epochs, steps per epoch, learning rate, warm-up steps, weight decay, dropout;
# hidden_dim, inner_dim, mlp_dim, num_layers, num_heads.
CSP = {  # table 6
    "listops": (32, 50, 100, 5e-2, 1000, 0.1, 0.1, 512, 512, 1024, 4, 8),
    "text": (32, 100, 200, 5e-2, 8000, 0.1, 0.1, 256, 256, 1024, 4, 4),
    "retrieval": (8, 50, 100, 5e-2, 8000, 0.1, 0.1, 128, 128, 512, 4, 4),
    "image": (256, 188, 187, 8e-3, 175, 0, 0.2, 128, 128, 128, 4, 8),
    "pathfinder": (256, 125, 1000, 1e-3, 625, 0, 0.1, 64, 64, 128, 6, 8),
}
SLICE = {  # the released code
    **CSP,
    "retrieval": (32, 50, 100, 5e-2, 8000, 0.1, 0.1, 128, 128, 512, 4, 4),
    "image": (192, 200, 234, 5e-3, 234, 0, 0.2, 96, 48, 128, 6, 8),
    "pathfinder": (640, 200, 250, 5e-4, 250, 0, 0.1, 320, 320, 320, 4, 8),
}
TRON = {  # table 3
    "listops": (32, 100, 150, 5e-3, 1000, 0.1, 0.1, 512, 512, 2048, 6, 8),
    "text": (32, 100, 200, 5e-2, 8000, 0.1, 0.1, 256, 256, 1024, 4, 4),
    "retrieval": (32, 100, 150, 5e-2, 8000, 0.1, 0.1, 128, 128, 512, 4, 4),
}
# Batch size, epochs, steps per epoch, warm-up steps, tokens, block size; from the released code.
BUTTERFLY = {
    "listops": (32, 50, 100, 1000, 2048, 64),
    "text": (32, 100, 200, 8000, 4096, 256),
    "retrieval": (32, 150, 200, 800, 4096, 128),
    "image": (256, 200, 175, 175, 1024, 32),
    "pathfinder": (256, 200, 312, 312, 1024, 128),
    "pathx": (64, 50, 500, 500, 16384, 128),  # table VI, last stage
}
# Batch size (including gradient accumulation, except for Path-X), epochs, steps per epoch,
# learning rate, warm-up steps, weight decay, dropout; hidden_dim, inner_dim, shared_dim,
# num_layers, norm.
MEGA = {  # table 7 of the CSP paper, and its code
    "listops": (64, 60, 1500, 1e-3, 3000, 1e-2, 0.1, 80, 160, 64, 6, "layernorm"),
    "text": (50, 50, 500, 4e-3, 10000, 1e-2, 0.1, 128, 256, 64, 4, "scalenorm"),
    "retrieval": (64, 40, 500, 6e-3, 10000, 4e-2, 0.1, 128, 256, 64, 6, "scalenorm"),
    "image": (50, 200, 900, 1e-2, 9000, 2e-2, 0.0, 160, 320, 96, 8, "batchnorm"),
    "pathfinder": (64, 100, 2500, 3e-2, 50000, 1e-2, 0.1, 128, 256, 64, 6, "batchnorm"),
    "pathx": (60, 125, 1000, 1e-2, 25000, 1e-2, 0.5, 64, 128, 32, 4, "batchnorm"),
}
CSP_IN_MEGA = {
    "image": {"name": "circular_shift", "shift": "linear_head"},
    "pathfinder": {"name": "csp", "group_size": 2, "shift": "linear_head"},
    "pathx": {"name": "csp", "group_size": 2, "shift": "power_code"},
}
# Values of the MEGA paper that differ, for MEGA itself.
OF_MEGA: dict[str, dict[str, Any]] = {
    "retrieval": dict(optimizer=dict(learning_rate=3e-3)),
    "pathfinder": dict(optimizer=dict(learning_rate=1e-2), batch_size=128, model=dict(dropout=0.0)),
    "pathx": dict(batch_size=16, model=dict(dropout=0.0)),
}  # fmt: skip


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
    base = merge(DATA[task], dict(seed=seed))
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
    table = TRON if tron else SLICE if model.startswith("slice") else CSP
    *training, hidden_dim, inner, mlp_dim, num_layers, heads = table[task]
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
    batch, epochs, steps, warmup, tokens, block = BUTTERFLY[task]
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
    *training, hidden_dim, hidden, shared, num_layers, norm = MEGA[task]
    text = task in TEXTS
    attention = "softmax" if text else "laplace"
    csp = CSP_IN_MEGA.get(task, {"name": "csp", "group_size": None})
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
    return recipe if model == "csp_mega" else merge(recipe, OF_MEGA.get(task, {}))


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


# Data and training of the small tasks. All models have the same size, except for their mixers.
SMALL: dict[str, dict[str, Any]] = {
    "listops": dict(
        data=dict(
            train=48_000, validation=1_000, test=2_000, min_tokens=40, max_tokens=128, max_depth=5,
            max_arguments=8,
        ),
        model=dict(max_sequence_length=128), batch_size=32, epochs=8, steps_per_epoch=300,
    ),
    "text": dict(
        model=dict(max_sequence_length=512), batch_size=16, epochs=4, steps_per_epoch=250,
        test_samples=2500
    ),
    "retrieval": dict(
        data=dict(source="imdb", tokenizer="bpe"),
        model=dict(max_sequence_length=128, vocabulary_size=4096), batch_size=16, epochs=4,
        steps_per_epoch=375, test_samples=2500,
    ),
    "image": dict(
        model=dict(image_size=16), batch_size=16, epochs=8, steps_per_epoch=200,
        validation_samples=1000, test_samples=2500,
    ),
    "pathfinder": dict(
        data=dict(
            train=60_000, validation=1_000, test=2_500, contour_length=3, distractors=0, gap=0,
            contrast=1, dot_radius=1, seed_distance=4,
        ),
        model=dict(image_size=16), batch_size=64, epochs=12, steps_per_epoch=200,
    ),
}  # fmt: skip
SMALL_TRAINING = dict(
    optimizer=dict(name="adamw", learning_rate=2e-3, weight_decay=0.01),
    schedule=dict(name="cosine", warmup_steps=200),
)
SMALL_SIZE = dict(hidden_dim=64, num_layers=2, mlp_dim=128)


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
    return merge(merge(SMALL_TRAINING, SMALL[task]), dict(model={**SMALL_SIZE, **own}))
