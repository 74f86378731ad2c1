"""SliceViT on MNIST, small enough for a few minutes on one CPU core.

    permix train slicevit/mnist
    permix train slicevit/mnist --option paper               # 98.81 % published
    permix train slicevit/mnist --option paper_interleave    # 99.00 % published
    permix train slicevit/mnist --option paper_attention     # 98.78 % published

The options are the Sliceformer paper's configuration (Table 4), of 6.4 and 9.6 M parameters.
"""

base = "cspvit/mnist"
model = dict(class_name="SliceViT", mixer=dict(name="slice_sort", order="ascend"))
paper = dict(
    top1="98.81 %",
    note="The paper's model (Sliceformer, Table 4, ascending) has 6.5 M parameters and 196 tokens; "
    "this one is far smaller.",
)

_paper = dict(
    model=dict(
        image_size=28,
        patch_size=2,
        hidden_dim=512,
        num_layers=6,
        mlp_dim=512,
        pooling="cls",
        dropout=0.1,
    ),
    augmentation=dict(crop_padding=0),
    optimizer=dict(name="adam", learning_rate=1e-4),
    schedule=dict(name="cosine_epochs"),
    label_smoothing=0.0,
    batch_size=64,
    epochs=100,
    paper=dict(top1="98.81 %", note="Sliceformer paper, Table 4."),
)
_interleave = dict(name="slice_sort", order="interleave")
_attention = dict(name="attention", num_heads=8, head_dim=64)
options = dict(
    paper=_paper,
    paper_interleave=dict(
        _paper,
        model=dict(_paper["model"], mixer=_interleave),
        paper=dict(top1="99.00 %", note="Sliceformer paper, Table 4."),
    ),
    paper_attention=dict(
        _paper,
        model=dict(_paper["model"], class_name="ViT", mixer=_attention),
        paper=dict(top1="98.78 %", note="Sliceformer paper, Table 4."),
    ),
)
