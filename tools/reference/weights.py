"""Weights of tiny checkpoints, which the tests repeat (tests/models/reference_checkpoint.cpp)."""
import math
import numpy as np
import torch


def weights(name, shape, scale, offset):
    """offset + scale * u, u uniform in [-1, 1) with 24 bits: SplitMix64 of FNV-1a(name) and the index."""
    key = 0xcbf29ce484222325
    for byte in name.encode():
        key = (key ^ byte) * 0x100000001b3 % 2**64
    with np.errstate(over="ignore"):
        x = np.uint64(key) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, math.prod(shape) + 1, dtype=np.uint64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    u = ((x >> np.uint64(40)).astype(np.int64) - 2**23).astype(np.float32) / np.float32(2**23)
    return torch.from_numpy(np.float32(offset) + np.float32(scale) * u).reshape(shape)
