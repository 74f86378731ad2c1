"""ButterflyMixer on CIFAR-10, the model of the Dimension Mixer paper, Table II.

    permix train butterflymixer/cifar10
    permix train butterflymixer/cifar10 --option paper

Muon on each block of the kernels, larger batches and averaged weights stand in for the paper's 200
epochs of Adam; by the paper's training, with 45 epochs, it had 77.42 %. The options are the rows of
the paper's table, whole. Published top-1, the mean of 8 seeds: Butterfly-MLP ("paper") 82.68 %,
Butterfly-Linear 82.45 %, dense 83.83 %; with twice the hidden units ("wide") 83.70 %, 83.49 %,
84.07 %.
"""

model = dict(
    class_name="ButterflyMixer",
    image_size=32,
    patch_size=4,
    num_classes=10,
    hidden_dim=121,
    num_layers=7,
    expansion=1,
    mlp="butterfly",
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2023, 0.1994, 0.2010),
)
data = dict(name="cifar10")
augmentation = dict(crop_padding=4, flip=True)
optimizer = dict(
    name="blockmuon",
    learning_rate=8e-3,
    adam_lr_ratio=0.5,
    adam_beta_2=0.99,
    weight_decay=0.01,
    adam_weight_decay=0.01,
    exclude_layers=["head"],
)
schedule = dict(name="cosine", warmup_epochs=1)
batch_size = 256
epochs = 60
ema = 0.998
seed = 0
precision = "mixed_bfloat16"
validation_samples = 2000
paper = dict(
    top1="82.68 %", note="Dimension Mixer paper, Table II: 200 epochs, the mean of 8 seeds."
)

_published = dict(
    optimizer=dict(name="adam", learning_rate=1e-3),
    schedule=dict(name="cosine_epochs"),
    batch_size=64,
    epochs=200,
    ema=None,
    precision="float32",
    validation_samples=None,
)
options = dict(
    paper=_published,
    linear=dict(model=dict(mlp="butterfly_linear"), paper=dict(top1="82.45 %"), **_published),
    dense=dict(
        model=dict(class_name="MLPMixer", mlp="dense"), paper=dict(top1="83.83 %"), **_published
    ),
    wide=dict(model=dict(expansion=2), paper=dict(top1="83.70 %"), **_published),
    wide_linear=dict(
        model=dict(expansion=2, mlp="butterfly_linear"), paper=dict(top1="83.49 %"), **_published
    ),
    wide_dense=dict(
        model=dict(class_name="MLPMixer", expansion=2, mlp="dense"),
        paper=dict(top1="84.07 %"),
        **_published,
    ),
)
