"""CSPViT on ImageNet-1k: the five rows of Table 3 of the CSP paper. Not trained here yet.

    permix train cspvit/imagenet                       # CSP: published 76.66 / 93.05 %
    permix train cspvit/imagenet --option attention    # 76.53 / 92.81 %
    permix train cspvit/imagenet --option shift        # 75.64 / 92.42 %
    permix train cspvit/imagenet --option sort         # 64.77 / 85.28 %
    permix train cspvit/imagenet --option wide         # 77.14 / 93.23 %

ImageNet is read from TFDS' `imagenet2012`, which wants the original archives in its download
folder. The paper gives batch, epochs, learning rate, AdamW and dropout; its ImageNet code is not
public. Weight decay, warm-up and augmentation are those usual for a transformer of this size
(Touvron et al., "Training data-efficient image transformers", 2021).
"""

model = dict(
    class_name="CSPViT",
    image_size=224,
    patch_size=16,
    num_classes=1000,
    hidden_dim=384,
    num_layers=12,
    mlp_dim=1536,
    mixer=dict(name="csp", group_size=2, shift="linear"),
    pooling="mean",
    dropout=0.1,
    keep_unused_params=True,
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
)
data = dict(name="imagenet2012", source="tfds", splits=("train", "validation"), random_crop=True)
augmentation = dict(
    flip=True,
    randaugment=dict(num_ops=2, factor=0.3),
    mixup=0.8,
    cutmix=1.0,
    erasing=0.25,
)
optimizer = dict(name="adamw", learning_rate=5e-4, weight_decay=0.05)
schedule = dict(name="cosine", warmup_epochs=5)
label_smoothing = 0.1
batch_size = 256
epochs = 300
seed = 0
precision = "mixed_bfloat16"
paper = dict(top1="76.66 %", top5="93.05 %", note="CSP paper, Table 3: 300 epochs, 8 GPUs.")

options = dict(
    attention=dict(
        model=dict(
            class_name="ViT",
            mixer=dict(name="attention", num_heads=6, head_dim=64, use_qkv_bias=True),
        ),
        paper=dict(top1="76.53 %", top5="92.81 %"),
    ),
    shift=dict(
        model=dict(mixer=dict(group_size=1, shift="unit")),
        paper=dict(top1="75.64 %", top5="92.42 %"),
    ),
    sort=dict(
        model=dict(mixer=dict(group_size=None)),
        paper=dict(top1="64.77 %", top5="85.28 %"),
    ),
    wide=dict(
        model=dict(mixer=dict(inner_dim=768)),
        paper=dict(top1="77.14 %", top5="93.23 %"),
    ),
)
