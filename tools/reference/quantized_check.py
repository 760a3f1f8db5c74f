"""Reads the folders that `paceline quantize` writes, and writes others' layouts for it, by numpy, ml-dtypes and safetensors.

Usage: quantized_check.py   (from the repository's root; needs build/release/apps/paceline)

Every number of a microscaling format is one that bf16 has, and products are those of bf16. So a quantized model gives each
token of a text bit for bit the log-probability that the bf16 model with the same numbers gives it, and that model is made
here, by what the layouts' documents say. FP8 with other scales is compared with the f32 model, by --dtype f32.
"""
import json, pathlib, shutil, subprocess, tempfile
import ml_dtypes as ml
import numpy as np
from safetensors.numpy import load_file, save_file

PROGRAM = "build/release/apps/paceline"
DEMO = pathlib.Path("models/demo/draft")
TEXT = "import os\n\n\ndef main(argv):\n    for name in argv[1:]:\n        print(name)\n    return 0\n"
ELEMENTS = {  # name: bits, element type
    "mxfp8": (8, ml.float8_e4m3fn), "mxfp8-e5m2": (8, ml.float8_e5m2), "mxfp6": (6, ml.float6_e2m3fn),
    "mxfp6-e3m2": (6, ml.float6_e3m2fn), "mxfp4": (4, ml.float4_e2m1fn), "mxint8": (8, np.int8),
}


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, check=True).stdout


def logprobs(folder, *options):
    text = folder.parent / "text.py"
    text.write_text(TEXT)
    return json.loads(run("score", text, "-m", folder, "--json", *options))["logprobs"]


def is_layer(name):
    return name.endswith("_proj.weight")


def decode(codes, scales, name):
    """codes: bytes of rows; the first element in the lowest bits. scales: a byte of exponent for 32 elements."""
    bits, kind = ELEMENTS[name]
    flat = np.unpackbits(codes, axis=1, bitorder="little").reshape(len(codes), -1, bits)
    numbers = np.packbits(flat, axis=2, bitorder="little")[:, :, 0]
    values = numbers.view(np.int8) / 64.0 if kind is np.int8 else numbers.view(kind).astype(np.float64)
    return np.ldexp(values.reshape(len(codes), -1, 32), scales[:, :, None].astype(int) - 127).reshape(len(codes), -1)


def write(folder, tensors, config=None):
    shutil.copytree(DEMO, folder)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    if config:
        both = json.loads((folder / "config.json").read_text()) | {"quantization_config": config}
        (folder / "config.json").write_text(json.dumps(both))


def same(what, ours, expected):
    assert ours == expected, f"{what}: log-probabilities differ"
    print(f"{what}: {len(ours)} log-probabilities, bit for bit")


def raw_tensors(path):
    """As safetensors' numpy has no FP8 in every version: bytes, by the header."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    return {name: (entry["dtype"], np.frombuffer(data[8 + size:][slice(*entry["data_offsets"])], np.uint8).reshape(
        entry["shape"] if entry["dtype"] not in ("BF16", "F32") else [-1])) for name, entry in header.items() if name != "__metadata__"}


def check_ours(name, place, original):
    folder, plain = place / name, place / (name + "-plain")
    run("quantize", "-m", DEMO, "-o", folder, "--weights", name)
    stored = raw_tensors(folder / "model.safetensors")
    tensors = dict(original)
    for tensor in filter(is_layer, original):
        values = decode(stored[tensor][1], stored[tensor + "_scale"][1], name)
        off = np.abs(values - original[tensor].astype(np.float64)).max()
        assert off <= 0.3 * np.abs(original[tensor].astype(np.float64)).max(), f"{tensor}: {off}"
        tensors[tensor] = values.astype(ml.bfloat16)
        assert (tensors[tensor].astype(np.float64) == values).all(), f"{tensor}: not bf16's numbers"
    write(plain, tensors)
    same(f"{name}, as it is written here", logprobs(folder), logprobs(plain))


def check_packed(place, original, random):
    """compressed-tensors: mxfp4-pack-quantized, from random codes and scales."""
    packed, plain = dict(original), dict(original)
    for tensor in filter(is_layer, original):
        rows, cols = original[tensor].shape
        codes = random.integers(0, 16, (rows, cols), np.uint8)
        scales = random.integers(118, 122, (rows, cols // 32), np.uint8)
        del packed[tensor]
        packed[tensor + "_packed"] = codes[:, 0::2] | codes[:, 1::2] << 4
        packed[tensor + "_scale"] = scales
        values = codes.view(ml.float4_e2m1fn).astype(np.float64) * np.repeat(np.ldexp(1.0, scales.astype(int) - 127), 32, 1)
        plain[tensor] = values.astype(ml.bfloat16)
    weights = {"num_bits": 4, "type": "float", "strategy": "group", "symmetric": True, "group_size": 32, "scale_dtype": "torch.uint8"}
    write(place / "packed", packed, {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "ignore": ["lm_head"],
                                     "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}})
    write(place / "packed-plain", plain)
    same("compressed-tensors mxfp4-pack-quantized", logprobs(place / "packed"), logprobs(place / "packed-plain"))


def check_six(place, original, random):
    """Quark: four codes of six bits in three bytes, the first in the lowest bits of the first."""
    for name, dtype, kind in (("mxfp6", "fp6_e2m3", ml.float6_e2m3fn), ("mxfp6-e3m2", "fp6_e3m2", ml.float6_e3m2fn)):
        coded, plain = dict(original), dict(original)
        for tensor in filter(is_layer, original):
            rows, cols = original[tensor].shape
            codes = random.integers(0, 64, (rows, cols), np.uint8)
            four = codes.reshape(rows, -1, 4).astype(np.uint32)
            whole = four[:, :, 0] | four[:, :, 1] << 6 | four[:, :, 2] << 12 | four[:, :, 3] << 18
            scales = random.integers(116, 120, (rows, cols // 32), np.uint8)
            coded[tensor] = np.stack([whole & 255, whole >> 8 & 255, whole >> 16], 2).astype(np.uint8).reshape(rows, -1)
            coded[tensor + "_scale"] = scales
            values = codes.view(kind).astype(np.float64) * np.repeat(np.ldexp(1.0, scales.astype(int) - 127), 32, 1)
            plain[tensor] = values.astype(ml.bfloat16)
        weight = {"dtype": dtype, "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0", "is_dynamic": False}
        write(place / dtype, coded, {"quant_method": "quark", "exclude": ["lm_head"], "layer_quant_config": {},
                                     "global_quant_config": {"weight": weight, "input_tensors": None}})
        write(place / (dtype + "-plain"), plain)
        same(f"Quark's {dtype}", logprobs(place / dtype), logprobs(place / (dtype + "-plain")))


def check_fp8(place, original, random):
    """DeepSeek's and Qwen's: a scale of f32 for 128 x 128 weights, called weight_scale_inv."""
    coded, plain = dict(original), {name: values.astype(np.float32) for name, values in original.items()}
    for tensor in filter(is_layer, original):
        rows, cols = original[tensor].shape
        scales = random.uniform(0.0005, 0.002, (-(-rows // 128), -(-cols // 128))).astype(np.float32)
        spread = np.repeat(np.repeat(scales, 128, 0), 128, 1)[:rows, :cols]
        coded[tensor] = np.clip(original[tensor].astype(np.float32) / spread, -448, 448).astype(ml.float8_e4m3fn)
        coded[tensor + "_scale_inv"] = scales
        plain[tensor] = coded[tensor].astype(np.float32) * spread
    write(place / "fp8", coded, {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]})
    write(place / "fp8-plain", plain)
    same("FP8 of 128 x 128", logprobs(place / "fp8", "--dtype", "f32"), logprobs(place / "fp8-plain"))


def main():
    original = load_file(DEMO / "model.safetensors")
    random = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        for name in ELEMENTS:
            check_ours(name, place, original)
        check_packed(place, original, random)
        check_six(place, original, random)
        check_fp8(place, original, random)


main()
