"""PatchOnlyMLPMixer on CIFAR-10, the model of the Dimension Mixer paper, Table V.

    permix train patchonlymlpmixer/cifar10
    permix train patchonlymlpmixer/cifar10 --option paper

The recipe is the paper's with 60 epochs in place of 200, and bfloat16, to end on two CPU cores. The
options `paper` and `deep` are the paper's whole: published top-1, the best of 3 seeds, is 84.66 %
for 7 pairs of patch sizes and 85.49 % for 10.
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
epochs = 60
seed = 0
precision = "mixed_bfloat16"
paper = dict(top1="84.66 %", note="Dimension Mixer paper, Table V: 200 epochs, the best of 3.")

_published = dict(epochs=200, precision="float32")
options = dict(
    paper=_published,
    deep=dict(model=dict(depth=10), paper=dict(top1="85.49 %"), **_published),
)
