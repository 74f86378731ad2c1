"""SliceViT on CIFAR-10: the sorting twin of `cspvit/cifar10_small`.

permix train slicevit/cifar10_small
"""

base = "cspvit/cifar10_small"
model = dict(class_name="SliceViT", mixer=dict(name="slice_sort"))
paper = dict(
    top1="82.16 %",
    top5="–",
    note="The paper's model (Sliceformer paper, Table 4) has 6.46 M parameters, patches of 2 "
    "pixels, a class token, and 100 epochs; this one is ten times smaller, at patches of 4 pixels.",
)
