"""SliceViT on Tiny-ImageNet as in the Sliceformer paper, Table 4. Not trained here yet.

    permix train slicevit/tiny_imagenet
    permix train slicevit/tiny_imagenet --option interleave

Published top-1: ascending 51.77 %, interleaved 52.40 %, ViT 52.74 %. Tiny-ImageNet has 200 classes;
the published parameter count (18.50 M) fits a head of 1000, which the recipe keeps. Images of 64
pixels are resized to 224. Read from a TFDS data set prepared from the image folders.
"""

base = "slicevit/cifar10"
model = dict(
    image_size=224,
    patch_size=16,
    num_classes=1000,
    width=384,
    depth=12,
    mlp_dim=1536,
    mixer=dict(use_value_bias=True),
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
)
data = dict(
    name="tiny_imagenet", source="tfds", splits=("train", "validation"), random_crop=False
)
paper = dict(top1="51.77 %", note="Sliceformer paper, Table 4.")

options = dict(
    interleave=dict(paper=dict(top1="52.40 %")),
    attention=dict(
        model=dict(mixer=dict(name="attention", num_heads=6, head_dim=64, use_qkv_bias=True)),
        paper=dict(top1="52.74 %"),
    ),
)
