"""CSPViT on CIFAR-100 as in the CSP paper, Tables 3 and 5. Not trained here yet.

    permix train cspvit/cifar100

Published top-1 / top-5: CSP 59.16 / 84.76 %, attention 53.30 / 79.97 %. Like the recipe for
CIFAR-10, with patches of 2 pixels.
"""

base = "cspvit/cifar10"
model = dict(
    patch_size=2,
    num_classes=100,
    mean=(0.5071, 0.4867, 0.4408),
    std=(0.2675, 0.2565, 0.2761),
)
data = dict(name="cifar100")
paper = dict(top1="59.16 %", top5="84.76 %", note="CSP paper, Table 3: 100 epochs, 8 GPUs.")

options = dict(
    attention=dict(paper=dict(top1="53.30 %", top5="79.97 %")),
    shift=dict(paper=dict(top1="58.38 %", top5="84.26 %")),
    sort=dict(paper=dict(top1="51.47 %", top5="79.67 %")),
    wide=dict(paper=dict(top1="59.23 %", top5="85.09 %")),
)
