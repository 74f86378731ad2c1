"""ViT on CIFAR-10: the attention twin of `cspvit/cifar10_small`.

permix train vit/cifar10_small
"""

base = "cspvit/cifar10_small"
model = dict(class_name="ViT", mixer=dict(name="attention", num_heads=4, fused=False))
paper = dict(
    top1="81.90 %",
    top5="98.85 %",
    note="The paper's model (CSP paper, Table 3) has 9.52 M parameters, width 512, dropout, and "
    "100 epochs at learning rate 1e-4; this one is twelve times smaller, and trains for 60 by "
    "another optimizer, on mixed images.",
)
