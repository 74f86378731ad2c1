"""ButterflyMixer on CIFAR-10 as in the Dimension Mixer paper, Table II. Not trained here yet.

    permix train butterflymixer/cifar10
    permix train butterflymixer/cifar10 --option wide

Published top-1, the mean of 8 seeds: Butterfly-MLP 82.68 %, Butterfly-Linear 82.45 %, dense
83.83 %; with twice the hidden units ("wide") 83.70 %, 83.49 %, 84.07 %.
"""

model = dict(
    class_name="ButterflyMixer",
    image_size=32,
    patch_size=4,
    num_classes=10,
    width=121,
    depth=7,
    expansion=1,
    mlp="butterfly",
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
paper = dict(
    top1="82.68 %", note="Dimension Mixer paper, Table II: 200 epochs, the mean of 8 seeds."
)

options = dict(
    linear=dict(model=dict(mlp="butterfly_linear"), paper=dict(top1="82.45 %")),
    dense=dict(model=dict(class_name="MLPMixer", mlp="dense"), paper=dict(top1="83.83 %")),
    wide=dict(model=dict(expansion=2), paper=dict(top1="83.70 %")),
    wide_linear=dict(
        model=dict(expansion=2, mlp="butterfly_linear"), paper=dict(top1="83.49 %")
    ),
    wide_dense=dict(
        model=dict(class_name="MLPMixer", expansion=2, mlp="dense"), paper=dict(top1="84.07 %")
    ),
)
