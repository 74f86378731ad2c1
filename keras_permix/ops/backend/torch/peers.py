"""Make vision transformers of PyTorch and timm for comparison; see `bench.models`."""

import keras
import torch
from torch import nn


class _Plain(nn.Module):
    """Define a vision transformer with the layers of PyTorch."""

    def __init__(
        self, image_size, patch_size, hidden_dim, num_layers, mlp_dim, num_heads, num_classes
    ):
        super().__init__()
        tokens = (image_size // patch_size) ** 2
        self.embed = nn.Conv2d(3, hidden_dim, patch_size, patch_size)
        self.positions = nn.Parameter(torch.randn(1, tokens, hidden_dim) * 0.02)
        block = nn.TransformerEncoderLayer(
            hidden_dim, num_heads, mlp_dim, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, num_layers, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(hidden_dim), nn.Linear(hidden_dim, num_classes)

    def forward(self, images):
        tokens = self.embed(images).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.norm(self.blocks(tokens).mean(1)))


def _timm(image_size, patch_size, hidden_dim, num_layers, mlp_dim, num_heads, num_classes):
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(
        image_size, patch_size, num_classes=num_classes, global_pool="avg", embed_dim=hidden_dim,
        depth=num_layers, num_heads=num_heads, mlp_ratio=mlp_dim / hidden_dim, class_token=False,
    )  # fmt: skip


PEERS = {"timm": _timm, "torch_nn": _Plain}


def make(peer, sizes, batch, dtype):
    """Return a model, and functions that predict a batch, train on it, and save the model.

    The function that saves the model returns a function that loads it.
    """
    device, dtype = keras.ops.zeros(1).device, getattr(torch, dtype)
    module = PEERS[peer](**sizes).to(device)
    optimizer = torch.optim.AdamW(module.parameters())
    images = torch.rand(batch, 3, sizes["image_size"], sizes["image_size"], device=device)
    labels = torch.randint(sizes["num_classes"], (batch,), device=device)

    def outputs():
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            return module(images)

    def answer():
        module.eval()
        with torch.no_grad():
            return outputs().cpu()

    def step():
        module.train()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(outputs().float(), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    def stored(path):
        torch.save(module.state_dict(), path)
        return lambda: PEERS[peer](**sizes).load_state_dict(torch.load(path, weights_only=True))

    return module, answer, step, stored
