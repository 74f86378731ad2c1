"""ViT on Tiny-ImageNet: the attention twin of `cspvit/tiny_imagenet`. Not trained here yet.

permix train vit/tiny_imagenet --data-dir FOLDER --option first
permix train vit/tiny_imagenet --data-dir FOLDER
permix train vit/tiny_imagenet --data-dir FOLDER --option larger
"""

base = "cspvit/tiny_imagenet"
init = "runs/vit/tiny_imagenet_first/preset"
model = dict(class_name="ViT", mixer=dict(name="attention", num_heads=4, fused=False))
