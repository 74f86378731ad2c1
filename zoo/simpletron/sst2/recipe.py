"""SimpleTRON on the sentences of SST-2, from the first three blocks of MiniLM, a small BERT.

    python tools/make_minilm.py
    permix train simpletron/sst2 --init runs/simpletron/minilm
    permix train simpletron/sst2 --option softmax --init runs/simpletron/minilm

The first command makes what both start from (without `--init` they start from nothing, with
sub-words of their own). The option keeps BERT's own attention, and changes nothing else. Scores are
of the 872 validation sentences: those for testing have no public labels.
"""

model = dict(
    class_name="SimpleTRON",
    vocabulary_size=6000,
    max_length=64,
    num_classes=2,
    width=384,
    depth=3,
    num_heads=12,
    mlp_dim=1536,
    attention="simple",
    variant="simple_resl",
    scale="valid",
)
data = dict(name="sst2", tokenizer="bpe", pad_to=(16, 32))
optimizer = dict(name="adamw", learning_rate=1e-4, weight_decay=0.01, global_clipnorm=1.0)
schedule = dict(name="linear", warmup_epochs=0.1)
batch_size = 32
epochs = 3
seed = 0
precision = "float32"

options = dict(softmax=dict(model=dict(attention="softmax", variant="simple_l")))
