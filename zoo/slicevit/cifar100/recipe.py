"""SliceViT on CIFAR-100 as in the Sliceformer paper, Table 4. Not trained here yet.

    permix train slicevit/cifar100
    permix train slicevit/cifar100 --option interleave

Published top-1: ascending 54.24 %, interleaved 54.70 %, ViT 53.99 %.
"""

base = "slicevit/cifar10"
model = dict(num_classes=100, mean=(0.5071, 0.4867, 0.4408), std=(0.2675, 0.2565, 0.2761))
data = dict(name="cifar100")
paper = dict(top1="54.24 %", note="Sliceformer paper, Table 4.")

options = dict(
    interleave=dict(paper=dict(top1="54.70 %")),
    attention=dict(paper=dict(top1="53.99 %")),
)
