"""ButterflyViT on CIFAR-10, the paper's model of four layers, by a training for two CPU cores.

    permix train butterflyvit/cifar10_small
    permix train butterflyvit/cifar10_small --option dense

The training is that of `cspvit/cifar10_small`; the paper's is Adam at 1e-4 for 300 epochs. With
AdamW at 2e-3, 30 epochs, and without mixing and averaging, it had 84.92 %. The options are other
rows of the paper's Tables III and VII: blocks of all tokens ("dense"), and patches in a random
order ("random").
"""

model = dict(
    class_name="ButterflyViT",
    image_size=32,
    patch_size=4,
    num_classes=10,
    hidden_dim=128,
    num_layers=4,
    num_heads=8,
    mlp_dim=256,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2023, 0.1994, 0.2010),
)
data = dict(name="cifar10")
augmentation = dict(crop_padding=4, flip=True, mixup=0.2, cutmix=1.0)
optimizer = dict(
    name="muon",
    learning_rate=5e-3,
    adam_lr_ratio=0.5,
    adam_beta_2=0.99,
    weight_decay=0.05,
    adam_weight_decay=0.05,
    exclude_layers=["head"],
)
schedule = dict(name="cosine", warmup_epochs=1)
label_smoothing = 0.1
batch_size = 256
epochs = 60
ema = 0.998
seed = 0
precision = "mixed_bfloat16"
validation_samples = 2000
paper = dict(
    top1="83.33 %", note="Dimension Mixer paper, Table III: 300 epochs of Adam, learning rate 1e-4."
)
options = dict(
    dense=dict(model=dict(block_size=64), paper=dict(top1="80.84 %")),
    random=dict(model=dict(random_order=0), paper=dict(top1="81.63 %")),
)
