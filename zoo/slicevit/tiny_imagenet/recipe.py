"""SliceViT on Tiny-ImageNet as in the Sliceformer paper, Table 4. Not trained here yet.

    permix train slicevit/tiny_imagenet
    permix train slicevit/tiny_imagenet --option interleave

Published top-1: ascending 51.77 %, interleaved 52.40 %, ViT 52.74 %. The published parameter count
(18.50 M) fits a head of 1000 classes, of which Tiny-ImageNet has 200: here it is 18.19 M. Images of
64 pixels are resized to 224. The folder `tiny-imagenet-200` is read from `--data-dir`.
"""

base = "slicevit/cifar10"
model = dict(
    image_size=224,
    patch_size=16,
    num_classes=200,
    hidden_dim=384,
    num_layers=12,
    mlp_dim=1536,
    mixer=dict(use_value_bias=True),
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
)
data = dict(name="tiny_imagenet")
paper = dict(top1="51.77 %", note="Sliceformer paper, Table 4.")

options = dict(
    interleave=dict(paper=dict(top1="52.40 %")),
    attention=dict(
        model=dict(mixer=dict(name="attention", num_heads=6, head_dim=64, use_qkv_bias=True)),
        paper=dict(top1="52.74 %"),
    ),
)
