"""CSPMEGA on short ListOps, small enough for two CPU cores.

    permix train cspmega/listops_small

Expressions of 40 to 128 tokens are generated, those of `permix lra listops --scale small`; the
paper's have 500 to 2,000. The data and the training are those of `lratransformer/listops_small`.
"""

model = dict(
    class_name="CSPMEGA",
    vocabulary_size=16,
    max_sequence_length=128,
    num_classes=10,
    hidden_dim=64,
    inner_dim=64,
    shared_dim=16,
    mlp_dim=128,
    ema_dim=4,
    num_layers=4,
    mixer=dict(name="csp", group_size=2),
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
