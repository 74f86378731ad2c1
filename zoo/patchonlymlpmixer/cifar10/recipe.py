"""PatchOnlyMLPMixer on CIFAR-10 as in the Dimension Mixer paper, Table V. Not trained here yet.

    permix train patchonlymlpmixer/cifar10
    permix train patchonlymlpmixer/cifar10 --option deep

Published top-1, the best of 3 seeds: 7 pairs of patch sizes 84.66 %, 10 pairs 85.49 %.
"""

model = dict(
    class_name="PatchOnlyMLPMixer",
    image_size=35,
    patch_sizes=(5, 7),
    num_classes=10,
    depth=7,
    expansion=2,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2023, 0.1994, 0.2010),
)
data = dict(name="cifar10")
augmentation = dict(crop_padding=4, flip=True)
optimizer = dict(name="adam", learning_rate=1e-3)
schedule = dict(name="cosine_epochs")
batch_size = 64
epochs = 200
seed = 0
precision = "float32"
paper = dict(top1="84.66 %", note="Dimension Mixer paper, Table V: 200 epochs, the best of 3.")

options = dict(deep=dict(model=dict(depth=10), paper=dict(top1="85.49 %")))
