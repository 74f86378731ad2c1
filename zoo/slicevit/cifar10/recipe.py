"""SliceViT on CIFAR-10 as in the Sliceformer paper, Table 4. Not trained here yet.

    permix train slicevit/cifar10
    permix train slicevit/cifar10 --option interleave

Published top-1: ascending 82.16 %, interleaved 83.54 %, ViT 80.98 %. A class token is sorted with
the rest and read out, as in the released code.
"""

model = dict(
    class_name="SliceViT",
    image_size=32,
    patch_size=2,
    num_classes=10,
    hidden_dim=512,
    num_layers=6,
    mlp_dim=512,
    mixer=dict(name="slice_sort", order="ascend"),
    pooling="cls",
    dropout=0.1,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2023, 0.1994, 0.2010),
)
data = dict(name="cifar10")
augmentation = dict(crop_padding=4, flip=True)
optimizer = dict(name="adam", learning_rate=1e-4)
schedule = dict(name="cosine_epochs")
batch_size = 64
epochs = 100
seed = 0
precision = "mixed_bfloat16"
paper = dict(top1="82.16 %", note="Sliceformer paper, Table 4.")

options = dict(
    interleave=dict(
        model=dict(mixer=dict(order="interleave")),
        paper=dict(top1="83.54 %"),
    ),
    attention=dict(
        model=dict(class_name="ViT", mixer=dict(name="attention", num_heads=8, head_dim=64)),
        paper=dict(top1="80.98 %"),
    ),
)
