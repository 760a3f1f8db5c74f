"""Measures tokenizing against the `tokenizers` library: one thread each, in turn, on source text.

Usage: ./dev reference tokenizer_speed [--rounds N] [--kind NAME]

The texts are modules of Python's own library, about 3 MB. The vocabularies are those of the comparison, and a
byte-level one of 32,000 tokens and a SentencePiece one of 16,000 that are trained on other modules first. The library is
called the way that is fastest (encode_batch_fast, without threads). The ratio is Paceline's throughput over the
library's, the median over rounds; the last line is the time for one word of a million letters.
"""
import argparse, json, os, random, statistics, subprocess, sysconfig, time
from pathlib import Path
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from tokenizer_check import WORK, nmt_nfkc
from tokenizer_kinds import KINDS, LLAMA3, ROOT, build, byte_level

PROGRAM = ROOT / "build/release/tools/reference/tokenizer_speed"
SPEED = WORK.parent / "speed"


def modules():
    """Files to learn from and files to measure on."""
    files = sorted(f for f in Path(sysconfig.get_paths()["stdlib"]).glob("*.py") if f.stat().st_size > 2000)
    return files[::2], files[1::2]


def train(name, tokenizer, trainer, parts):
    file = SPEED / f"{name}.json"
    if not file.exists():
        tokenizer.train([str(f) for f in modules()[0]], trainer)
        file.write_text(json.dumps(dict(json.loads(tokenizer.to_str()), **parts)))
    return json.loads(file.read_text())


def large():
    """Vocabularies of realistic size, with the parts of Llama 3 and of Gemma."""
    options = dict(show_progress=False, special_tokens=["<unk>"])
    of_bytes = Tokenizer(models.BPE())
    of_bytes.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    yield "llama 3, 32k", train("bytes", of_bytes, trainers.BpeTrainer(vocab_size=32000, initial_alphabet=alphabet, **options), {"decoder": byte_level()})
    of_characters = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    of_characters.normalizer = normalizers.Replace(" ", "\u2581")
    of_characters.pre_tokenizer = pre_tokenizers.Split(Regex("\u2581*[^\u2581\n]+|\u2581+|\n+"), "isolated")
    yield "gemma, 16k", train("characters", of_characters, trainers.BpeTrainer(vocab_size=16000, **options), {"pre_tokenizer": None, "decoder": {"type": "Fuse"}})


class Paceline:
    def __init__(self, folder, files):
        self.process = subprocess.Popen([PROGRAM, folder, *files], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def round(self):
        """Seconds and tokens."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        seconds, tokens = self.process.stdout.readline().split()
        return float(seconds), int(tokens)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(name, description, files, rounds):
    folder = SPEED / name.replace(" ", "-").replace(",", "")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(description))
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    texts = [f.read_bytes().decode() for f in files]
    size = sum(len(t.encode()) for t in texts)
    paceline = Paceline(folder, files)
    ratios, speeds = [], []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        expected = sum(len(e.ids) for e in reference.encode_batch_fast(texts))
        other = time.perf_counter() - start
        seconds, tokens = paceline.round()
        assert tokens == expected, f"{tokens} tokens, but the library has {expected}"
        ratios.append(other / seconds)
        speeds.append(size / seconds)
    paceline.close()
    del ratios[0], speeds[0] # caches are cold
    print(f"{name:26} {statistics.median(speeds) / 1e6:7.1f} MB/s   ratio {statistics.median(ratios):6.2f}  ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def long_word(description):
    folder = SPEED / "word"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(description))
    word = folder / "word.txt"
    word.write_text("".join(random.Random(1).choices("etaoinshrdlu", k=1_000_000)))
    paceline = Paceline(folder, [word])
    print(f"a word of a million letters: {min(paceline.round()[0] for _ in range(3)):.3f} s")
    paceline.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kind")
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    SPEED.mkdir(parents=True, exist_ok=True)
    WORK.mkdir(parents=True, exist_ok=True)
    wanted = ["gpt2", "llama 3", "qwen 2", "deepseek", "o200k", "llama 2", "gemma", "t5"]
    small = [(name, build(base, parts, nmt_nfkc() if base == "unigram" else None)) for name, base, parts, _ in KINDS if name in wanted]
    files = modules()[1]
    for name, description in [*large(), *small]:
        if options.kind in (None, name):
            measure(name, description, files, options.rounds)
    long_word(dict(small)["llama 3"])


if __name__ == "__main__":
    main()
