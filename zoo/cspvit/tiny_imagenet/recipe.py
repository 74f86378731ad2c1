"""CSPViT on Tiny-ImageNet, at its own 64 pixels, small enough for two CPU cores.

    permix train cspvit/tiny_imagenet --data-dir FOLDER --option first
    permix train cspvit/tiny_imagenet --data-dir FOLDER
    permix train cspvit/tiny_imagenet --data-dir FOLDER --option larger

FOLDER holds `tiny-imagenet-200`. The first command trains for 17 epochs of images as they are, and
ends with 85 % of them right; the second goes on for 8 of mixed ones, which start at half the
learning rate, and keeps averaged weights. Muon learns in few epochs what AdamW does not: at 32
pixels, after three epochs of 48,000 images, it had 15.5 % of 4,000 others of the training set
right, AdamW 6.0 %, in half the time per step. Three learning rates of Muon and two of AdamW were
tried so.

The other options are for a GPU: four times the tokens, and 120 epochs. The twin `vit/tiny_imagenet`
has another mixer and all else alike. Augmentation runs on the CPU beside the GPU. On PyTorch, on a
busy AMD EPYC, one core gave 14,000 images per second for crop and flip alone, 4,300 with erasing,
11,000 with mixing and 2,700 with RandAugment (process time, November 2026), so this has its own
option.
"""

model = dict(
    class_name="CSPViT",
    image_size=64,
    patch_size=8,
    num_classes=200,
    hidden_dim=256,
    num_layers=8,
    mlp_dim=512,
    mixer=dict(name="csp", group_size=2, shift="linear_code"),
    pooling="mean",
    mean=(0.480, 0.448, 0.398),
    std=(0.277, 0.269, 0.282),
)
data = dict(name="tiny_imagenet")
augmentation = dict(crop_padding=8, flip=True, mixup=0.2, cutmix=1.0)
optimizer = dict(
    name="muon",
    learning_rate=2.5e-3,
    adam_lr_ratio=0.5,
    adam_beta_2=0.99,
    weight_decay=0.05,
    adam_weight_decay=0.05,
    exclude_layers=["head"],
)
schedule = dict(name="cosine", warmup_epochs=1)
label_smoothing = 0.1
batch_size = 256
epochs = 8
ema = 0.998
init = "runs/cspvit/tiny_imagenet_first/preset"
seed = 0
precision = "mixed_bfloat16"
validation_samples = 2000
paper = dict(
    top1="51.77 %",
    note="Sliceformer paper, Table 4: a ViT of 18.5 M parameters with SliceSort for attention.",
)

_augmentation = dict(crop_padding=8, flip=True, erasing=0.25, mixup=0.8, cutmix=1.0)
_first = dict(
    augmentation=dict(mixup=0.0, cutmix=0.0),
    optimizer=dict(learning_rate=5e-3),
    epochs=17,
    ema=None,
    init=None,
)
_larger = dict(
    init=None,
    model=dict(patch_size=4, hidden_dim=192, mlp_dim=768),
    augmentation=_augmentation,
    optimizer=dict(name="adamw", learning_rate=1e-3, weight_decay=0.05, beta_2=0.99),
    schedule=dict(warmup_epochs=5),
    epochs=120,
    ema=0.9995,
)
options = dict(
    first=_first,
    larger=_larger,
    randaugment=dict(
        _larger, augmentation=dict(_augmentation, randaugment=dict(num_ops=2, factor=0.3))
    ),
)
