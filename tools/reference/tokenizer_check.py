"""Compares `paceline tokenize` with the `tokenizers` library: 20,000 drawn texts for every kind of tokenizer.

Usage: ./dev reference tokenizers [--strings N] [--kind NAME] [--sample]

Compared are ids and, of those ids, decoded text; where a kind loses nothing, the text must come back. T5 kinds run with
SentencePiece's whole nmt_nfkc rules. --sample writes tests/text/data/tokenizers/kinds.json, which the ordinary tests
replay, instead.
"""
import argparse, json, os, subprocess, sys
from tokenizers import Tokenizer
from tokenizer_kinds import DATA, KINDS, ROOT, build
from tokenizer_strings import Strings

WORK = ROOT / "build/reference/kinds"
PROGRAM = ROOT / "build/release/apps/paceline"
SAMPLE_STRINGS = 300


def nmt_nfkc():
    """The rules that T5's checkpoints hold; made once."""
    file = WORK / "nmt_nfkc.base64"
    if not file.exists():
        from tokenizer_train import charsmap
        file.write_text(charsmap(normalization_rule_name="nmt_nfkc"))
    return file.read_text()


def ask(folder, name, values):
    """What `paceline tokenize --jsonl` says of each value."""
    file = folder / f"{name}.jsonl"
    file.write_text("".join(json.dumps(v) + "\n" for v in values))
    run = subprocess.run([PROGRAM, "tokenize", "-m", folder, "--jsonl", "-f", file], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    return [json.loads(line) for line in run.stdout.split("\n")[:-1]]


def differences(kind, texts):
    """Texts on which the two differ, with what each says."""
    name, base, parts, lossless = kind
    folder = WORK / name.replace(" ", "-").replace(",", "")
    folder.mkdir(parents=True, exist_ok=True)
    description = json.dumps(build(base, parts, nmt_nfkc() if base == "unigram" else None))
    (folder / "tokenizer.json").write_text(description)
    reference = Tokenizer.from_str(description)
    expected = [reference.encode(t).ids for t in texts]
    found = [a["tokens"] for a in ask(folder, "texts", texts)]
    decoded = [a["text"] for a in ask(folder, "ids", expected)]
    for text, ids, own, back in zip(texts, expected, found, decoded, strict=True):
        if ids != own:
            yield "ids", text, ids, own
        want = reference.decode(ids)
        # Of bytes that are no text the reference shows each as U+FFFD, Paceline each maximal part.
        if back != want and ("\ufffd" not in want or "\ufffd" in text):
            yield "decoded", text, want, back
        if lossless and "<" not in text and "\u2581" not in text and back != text:
            yield "round trip", text, text, back


def texts_of(kind, count):
    name, base, parts, _ = kind
    literals = [t["content"] for t in build(base, parts)["added_tokens"]] + ["<0x41>", "<0x0A>", "\u2581"]
    strings = Strings(name, literals)
    return [strings.draw() for _ in range(count)]


def check(kinds, count):
    failed = 0
    for kind in kinds:
        found = list(differences(kind, texts_of(kind, count)))
        print(f"{kind[0]:26} {count} strings, {len(found)} differences", flush=True)
        for what, text, want, own in found[:5]:
            print(f"  {what} of {text!r}\n    reference {want!r}\n    paceline  {own!r}")
        failed += len(found)
    print(f"{len(kinds)} kinds, {failed} differences")
    return failed == 0


def fnv(ids):
    h = 0xCBF29CE484222325
    for i in ids:
        h = (h ^ i) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{h & 0xFFFFFFFF:08x}"


def sample():
    """Texts that all kinds share, some of each kind's own, and of ids and decoded text hashes (FNV-1a, lower half)."""
    shared = texts_of(("shared", "bytes", {}, True), SAMPLE_STRINGS - 60)
    out = {"texts": shared, "kinds": []}
    for name, base, parts, lossless in KINDS:
        reference = Tokenizer.from_str(json.dumps(build(base, parts)))
        own = texts_of((name, base, parts, lossless), 60)
        ids = [reference.encode(t).ids for t in shared + own]
        decoded = [fnv(reference.decode(i).encode()) for i in ids]
        out["kinds"].append({"name": name, "base": base, "parts": parts, "lossless": lossless, "texts": own,
                             "ids": "".join(fnv(i) for i in ids), "decoded": "".join(decoded)})
    with open(DATA / "kinds.json", "w", encoding="utf-8") as f:
        json.dump(out, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strings", type=int, default=20000)
    parser.add_argument("--kind")
    parser.add_argument("--sample", action="store_true")
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    WORK.mkdir(parents=True, exist_ok=True)
    if options.sample:
        return sample()
    kinds = [k for k in KINDS if options.kind in (None, k[0])]
    sys.exit(0 if check(kinds, options.strings) else 1)


if __name__ == "__main__":
    main()
