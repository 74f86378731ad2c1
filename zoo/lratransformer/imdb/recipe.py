"""A Transformer of sub-words on IMDB that sorts, small enough for two CPU cores.

    permix train lratransformer/imdb
    permix train lratransformer/imdb --option attention

The option attends in place of sorting and changes nothing else. The tokenizer is made for the
training texts before the first epoch, 8,000 sub-words, and is part of the preset.
"""

model = dict(
    class_name="LRATransformer",
    vocabulary_size=8000,
    max_sequence_length=256,
    num_classes=2,
    hidden_dim=96,
    num_layers=2,
    mlp_dim=192,
    mixer="slice_sort",
    use_bias=True,
    activation="relu",
    pooling="mean",
    head_dims=(),
    embedding_stddev=0.1,
    dropout=0.3,
)
data = dict(name="imdb", tokenizer="bpe")
optimizer = dict(name="adamw", learning_rate=1e-3, weight_decay=0.05)
schedule = dict(name="cosine", warmup_epochs=1)
batch_size = 64
epochs = 8
seed = 0
precision = "float32"
paper = dict(
    accuracy="84.91 %",
    note="The paper's model (Sliceformer paper, Table 5) has 8.05 M parameters, six post-norm "
    "blocks of width 256, and texts of up to 512 of 16,000 sub-words; this one is nine times "
    "smaller.",
)

options = dict(
    attention=dict(
        model=dict(mixer=dict(name="attention", num_heads=4)),
        paper=dict(
            accuracy="83.05 %",
            note="The paper's model (Sliceformer paper, Table 5) has 8.84 M parameters, six "
            "post-norm blocks of width 256, and texts of up to 512 of 16,000 sub-words; this one "
            "is nine times smaller.",
        ),
    )
)
