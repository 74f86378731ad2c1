"""A Transformer on short ListOps that attends within butterflies, small enough for two CPU cores.

    permix train lratransformer/listops_small
    permix train lratransformer/listops_small --option csp

The option permutes in place of attending and changes nothing else. Expressions of 40 to 128 tokens
are generated, those of `permix lra listops --scale small`; the paper's have 500 to 2,000.
"""

model = dict(
    class_name="LRATransformer",
    vocabulary_size=16,
    max_sequence_length=128,
    num_classes=10,
    hidden_dim=64,
    num_layers=4,
    mlp_dim=128,
    mixer=dict(name="butterfly_attention", num_heads=4, block_size=16),
    positions="learned",
    pooling="mean",
    head_dims=(64,),
    embedding_stddev=0.02,
)
data = dict(
    name="listops",
    train=48_000,
    validation=1_000,
    test=2_000,
    min_tokens=40,
    max_tokens=128,
    max_depth=5,
    max_arguments=8,
)
optimizer = dict(name="adamw", learning_rate=2e-3, weight_decay=0.01)
schedule = dict(name="cosine", warmup_epochs=1)
batch_size = 64
epochs = 20
seed = 0
precision = "float32"
paper = dict(
    accuracy="37.20 %",
    note="The paper's model (Dimension Mixer, Table IV) reads expressions of 500 to 2,000 tokens, "
    "up to 10 deep; these are shorter, and easier.",
)

options = dict(
    csp=dict(
        model=dict(mixer=dict(name="csp", group_size=2)),
        paper=dict(
            accuracy="37.65 %",
            note="The paper's model (CSP paper, Table 4) reads expressions of 500 to 2,000 tokens, "
            "up to 10 deep, and sorts all tokens in one group; these are shorter, and easier.",
        ),
    )
)
