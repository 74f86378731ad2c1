"""CSPViT on CIFAR-10, small enough for two CPU cores.

    permix train cspvit/cifar10_small

Its twins `vit/cifar10_small` and `slicevit/cifar10_small` change nothing but the mixer.
"""

model = dict(
    class_name="CSPViT",
    image_size=32,
    patch_size=4,
    num_classes=10,
    width=128,
    depth=6,
    mlp_dim=256,
    mixer=dict(name="csp", group_size=2, shift="linear_code"),
    pooling="mean",
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2023, 0.1994, 0.2010),
)
data = dict(name="cifar10")
augmentation = dict(crop_padding=4, flip=True)
optimizer = dict(name="adamw", learning_rate=2e-3, weight_decay=0.05, beta_2=0.99)
schedule = dict(name="cosine", warmup_epochs=3)
label_smoothing = 0.1
batch_size = 128
epochs = 30
seed = 0
precision = "mixed_bfloat16"
validation_samples = 2000
paper = dict(
    top1="84.81 %",
    top5="99.35 %",
    note="The paper's model (CSP paper, Table 3) has 6.38 M parameters, width 512, dropout, and "
    "100 epochs at learning rate 1e-4; this one is ten times smaller and trains for 30.",
)
