"""SimpleTRON on the sentences of SST-2, from the first three blocks of MiniLM, a small BERT.

    python tools/make_minilm.py
    permix train simpletron/sst2 --option softmax
    python tools/teach_simple.py runs/simpletron/sst2_softmax/preset
    permix train simpletron/sst2

The softmax twin starts from BERT's own attention. SimpleAttention starts from what the trained twin
does: the third command has it learn the states of the twin's blocks, without labels, for the texts
of SST-2 and for sentences of IMDB's reviews; the training that follows is short. Trained as the
twin is, from the same blocks of BERT and with the paper's extra skip, SimpleAttention had 82.68 %;
without the sentences, 87.04 %.
"""

model = dict(
    class_name="SimpleTRON",
    vocabulary_size=6000,
    max_sequence_length=64,
    num_classes=2,
    hidden_dim=384,
    num_layers=3,
    num_heads=12,
    mlp_dim=1536,
    variant="simple_l",
    scale="valid",
)
data = dict(name="sst2", tokenizer="bpe", pad_to=(16, 32))
optimizer = dict(name="adamw", learning_rate=1e-5, weight_decay=0.01, global_clipnorm=1.0)
schedule = dict(name="linear", warmup_epochs=0.1)
batch_size = 32
epochs = 1
init = "runs/simpletron/sst2_taught"
seed = 0
precision = "float32"

options = dict(
    softmax=dict(
        model=dict(variant="softmax"),
        optimizer=dict(learning_rate=1e-4),
        epochs=3,
        init="runs/simpletron/minilm",
    )
)
