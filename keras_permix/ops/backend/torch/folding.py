"""How `torch.func.vmap` maps ops of which no sample of a batch knows another."""


def fold(info, dims, *tensors):
    """Make the axis that is mapped over part of the batch, of which no sample knows another."""

    def fold_one(tensor, dim):
        if tensor is None:
            return None
        if dim is None:
            tensor = tensor.expand(info.batch_size, *tensor.shape)
        else:
            tensor = tensor.movedim(dim, 0)
        return tensor.flatten(0, 1)

    def unfold(tensor):
        return tensor.unflatten(0, (info.batch_size, -1))

    return [fold_one(*pair) for pair in zip(tensors, dims, strict=False)], unfold
