"""A Transformer of bytes on IMDB that attends within butterflies, small enough for two CPU cores.

    permix train lratransformer/imdb_bytes
    permix train lratransformer/imdb_bytes --option csp

The option permutes in place of attending and changes nothing else. Reviews are read as the Long
Range Arena reads them, byte by byte, but no further than 1,024 bytes.
"""

model = dict(
    class_name="LRATransformer",
    vocabulary_size=257,
    max_sequence_length=1024,
    num_classes=2,
    hidden_dim=64,
    num_layers=2,
    mlp_dim=128,
    mixer=dict(name="butterfly_attention", num_heads=4, block_size=32),
    positions="learned",
    pooling="mean",
    head_dims=(64,),
    embedding_stddev=0.02,
    dropout=0.1,
)
data = dict(name="imdb")
optimizer = dict(
    name="muon",
    learning_rate=4e-3,
    adam_lr_ratio=0.5,
    weight_decay=0.01,
    adam_weight_decay=0.01,
    exclude_layers=["head"],
)
schedule = dict(name="cosine", warmup_epochs=1)
batch_size = 32
epochs = 6
ema = 0.998
seed = 0
precision = "float32"
validation_samples = 2000
paper = dict(
    accuracy="65.4 %",
    note="The paper's model (Dimension Mixer, Table IV) reads reviews of up to 4,000 bytes; this "
    "one is far smaller, and reads 1,024.",
)

options = dict(
    csp=dict(
        model=dict(mixer=dict(name="csp", group_size=2)),
        paper=dict(
            accuracy="64.60 %",
            note="The paper's model (CSP paper, Table 4) reads reviews of up to 4,000 bytes, and "
            "sorts all of them in one group; this one is far smaller, and reads 1,024.",
        ),
    )
)
