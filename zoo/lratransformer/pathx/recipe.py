"""Butterfly attention on Path-X by the seven stages of the Dimension Mixer paper, Table VI.

    permix train lratransformer/pathx
    permix train lratransformer/pathx --option stage_2

and so on to `stage_7`, which is Path-X, each from the run of the one before: positions are grown by
their nearest neighbors, and blocks become larger. The first two and the last read the Long Range
Arena's pictures from `--data-dir`; those of the others are made. Not trained here.
"""

model = dict(
    class_name="LRATransformer",
    image_size=32,
    num_classes=2,
    hidden_dim=64,
    num_layers=4,
    mlp_dim=128,
    mixer=dict(name="butterfly_attention", num_heads=4, block_size=32),
    use_bias=True,
    activation="gelu",
    positions="learned",
    pooling="mean_of_length",
    head_dims=(128,),
    compare_pairs=True,
    embedding_stddev=0.02,
    dropout=0.1,
)
data = dict(name="pathfinder", source="files")
optimizer = dict(name="adamw", learning_rate=3e-4, weight_decay=1e-3)
schedule = dict(name="cosine", warmup_steps=0)
batch_size = 256
epochs = 50
steps_per_epoch = 500
validation_samples = 2000
seed = 0
precision = "float32"
paper = dict(top1="69.17 %", note="Dimension Mixer paper, Table VI.")


def _stage(before, top1, image_size, block_size, **pictures):
    return dict(
        init=f"runs/lratransformer/{before}/preset",
        model=dict(image_size=image_size, mixer=dict(block_size=block_size)),
        data=pictures,
        schedule=dict(warmup_steps=500),
        batch_size=64,
        paper=dict(top1=top1),
    )


_made = dict(source="generated", distractors=5, gap=1, contrast=0.9)
options = dict(
    stage_2=_stage("pathx", "80.99 %", 64, 64, path="pathfinder64/curv_contour_length_9"),
    stage_3=_stage("pathx_stage_2", "71.84 %", 128, 128, **_made),
    stage_4=_stage("pathx_stage_3", "75.05 %", 128, 128, **{**_made, "gap": 2}),
    stage_5=_stage(
        "pathx_stage_4",
        "75.46 %",
        128,
        128,
        **{**_made, "distractors": 14, "gap": (2, 3), "contrast": 0.8},
    ),
    stage_6=_stage(
        "pathx_stage_5",
        "76.41 %",
        128,
        128,
        **{**_made, "distractors": 20, "gap": (2, 3), "contrast": 0.73},
    ),
    stage_7=_stage("pathx_stage_6", "76.72 %", 128, 128),
)
