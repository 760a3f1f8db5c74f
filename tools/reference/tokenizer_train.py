"""Writes the small vocabularies under tests/text/data/tokenizers: a SentencePiece-style BPE and a Unigram.

Usage: ./dev reference tokenizer_train     (needed only to change them: results depend on the libraries' versions)
"""
import base64, io, json, unicodedata
import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizer_kinds import DATA
from tokenizer_strings import Strings, code_lines


def corpus(every_script):
    yield from code_lines()
    strings = Strings(1)
    for _ in range(4000 if every_script else 0):
        yield strings.script() + "\n"
    common = [g for g in strings.scripts if unicodedata.name(g[-1], "").split()[0] in ("LATIN", "CYRILLIC", "GREEK", "ARABIC", "DEVANAGARI", "HIRAGANA", "HANGUL")]
    for _ in range(4000):
        group = strings.rng.choice(common)[:60]
        yield " ".join(strings.some(group, 1, 6) for _ in range(6)) + "\n"


def field(message, number):
    """The last length-delimited field of this number in a protobuf message."""
    found, at = None, 0
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            varint()
        elif tag & 7 == 2:
            size = varint()
            if tag >> 3 == number:
                found = message[at:at + size]
            at += size
        else:
            at += 8 if tag & 7 == 1 else 4
    return found


def charsmap(**rules):
    """A normaliser as the sentencepiece library compiles it, in base64."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a b c d e f g h"] * 9), model_writer=model, vocab_size=16,
                                             hard_vocab_limit=False, minloglevel=2, **rules)
    return base64.b64encode(field(field(model.getvalue(), 3), 2)).decode()


def small_rules():
    """Some of nmt_nfkc's rules: what NFKC maps below U+0250 and in a few blocks, spaces, and controls that go."""
    sources = [chr(c) for c in (*range(0xa0, 0x250), *range(0x3400 - 0x80, 0x3400), *range(0xfb00, 0xfb20), *range(0xff01, 0xffa0))]
    for c in sources:
        target = unicodedata.normalize("NFKC", c)
        for source in {c, unicodedata.normalize("NFD", c)} - {target}:
            yield source, target
    yield from ((c, " ") for c in "\t\n\r\u1680\u2000\u2003\u2028\u3000\ufeff\u200b")
    yield from ((chr(c), "") for c in (*range(1, 9), 0x7f, 0xad))
    yield "\u1100\u1161", "\uac00"


def write(name, tokenizer):
    DATA.mkdir(parents=True, exist_ok=True)
    with open(DATA / f"{name}.json", "w", encoding="utf-8") as f:
        json.dump(tokenizer, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def sentencepiece_bpe(lines):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("\u2581*[^\u2581\n]+|\u2581+|\n+"), "isolated")
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=2000, special_tokens=special, limit_alphabet=420, show_progress=False))
    out = json.loads(tokenizer.to_str())
    out["model"]["merges"] = [" ".join(m) for m in out["model"]["merges"]]
    return dict(out, added_tokens=[], normalizer=None, pre_tokenizer=None)


def unigram(lines):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(lines, trainers.UnigramTrainer(vocab_size=1500, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    out = json.loads(tokenizer.to_str())
    for entry in out["model"]["vocab"]:
        entry[1] = round(entry[1], 4)
    rules = DATA / "rules.tsv"
    DATA.mkdir(parents=True, exist_ok=True)
    code = lambda text: " ".join(f"{ord(c):X}" for c in text)
    rules.write_text("".join(f"{code(s)}\t{code(t)}\n" for s, t in dict(small_rules()).items()))
    own = {"type": "Precompiled", "precompiled_charsmap": charsmap(normalization_rule_tsv=str(rules))}
    rules.unlink()
    return dict(out, added_tokens=[], normalizer=own, pre_tokenizer=None)


if __name__ == "__main__":
    write("sentencepiece", sentencepiece_bpe(corpus(True)))
    write("unigram", unigram(corpus(False))) # which has no limit on its alphabet
