"""CSPViT on CIFAR-10 as in the CSP paper, Tables 3 and 5. Not trained here yet.

    permix train cspvit/cifar10
    permix train cspvit/cifar10 --option attention

Published top-1 / top-5: CSP 84.81 / 99.35 %, attention 81.90 / 98.85 %. Shifts are `linear_code`,
as released; augmentation, Adam without weight decay and no warm-up are the released code's.
"""

model = dict(
    class_name="CSPViT",
    image_size=32,
    patch_size=4,
    num_classes=10,
    hidden_dim=512,
    num_layers=6,
    mlp_dim=512,
    mixer=dict(name="csp", group_size=2, shift="linear_code"),
    pooling="mean",
    dropout=0.1,
    keep_unused_params=True,
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
paper = dict(top1="84.81 %", top5="99.35 %", note="CSP paper, Table 3: 100 epochs, 8 GPUs.")

options = dict(
    attention=dict(
        model=dict(class_name="ViT", mixer=dict(name="attention", num_heads=8, head_dim=64)),
        paper=dict(top1="81.90 %", top5="98.85 %"),
    ),
    shift=dict(
        model=dict(mixer=dict(group_size=1, shift="unit")),
        paper=dict(top1="83.84 %", top5="99.27 %"),
    ),
    sort=dict(
        model=dict(mixer=dict(group_size=None)),
        paper=dict(top1="79.41 %", top5="99.03 %"),
    ),
    wide=dict(
        model=dict(mixer=dict(inner_dim=1024)),
        paper=dict(top1="85.02 %", top5="99.37 %"),
    ),
)
