"""CSPViT on MNIST, small enough for a few minutes on one CPU core.

    permix train cspvit/mnist

Digits are resized from 28 to 32 pixels, which makes 64 tokens.
"""

model = dict(
    class_name="CSPViT",
    image_size=32,
    patch_size=4,
    num_classes=10,
    channels=1,
    hidden_dim=96,
    num_layers=4,
    mlp_dim=192,
    mixer=dict(name="csp", group_size=2, shift="linear_code"),
    pooling="mean",
    mean=(0.1307,),
    std=(0.3081,),
)
data = dict(name="mnist")
augmentation = dict(crop_padding=2)
optimizer = dict(name="adamw", learning_rate=2e-3, weight_decay=0.05, beta_2=0.99)
schedule = dict(name="cosine", warmup_epochs=1)
label_smoothing = 0.1
batch_size = 128
epochs = 10
seed = 0
precision = "mixed_bfloat16"
validation_samples = 2000
