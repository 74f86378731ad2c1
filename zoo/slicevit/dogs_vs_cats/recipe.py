"""SliceViT on Dogs vs. Cats as in the Sliceformer paper, Table 4. Not trained here yet.

    permix train slicevit/dogs_vs_cats
    permix train slicevit/dogs_vs_cats --option interleave

Published top-1: ascending 79.71 %, interleaved 79.87 %, ViT 79.03 %. Read from TFDS'
`cats_vs_dogs`, of which the last fifth is the test set here; the paper does not give its split. Its
learning rate drops in a step late in training, here along a cosine.
"""

base = "slicevit/cifar10"
model = dict(
    image_size=224,
    patch_size=16,
    num_classes=2,
    hidden_dim=128,
    mlp_dim=128,
    mixer=dict(inner_dim=512),
    dropout=0.0,
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
)
data = dict(
    name="cats_vs_dogs",
    source="tfds",
    splits=("train[:80%]", "train[80%:]"),
    random_crop=True,
)
augmentation = dict(crop_padding=0)
optimizer = dict(learning_rate=3e-5)
epochs = 300
paper = dict(top1="79.71 %", note="Sliceformer paper, Table 4.")

options = dict(
    interleave=dict(paper=dict(top1="79.87 %")),
    attention=dict(paper=dict(top1="79.03 %")),
)
