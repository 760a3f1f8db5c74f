"""The `tokenizers` library over the vocabulary of a GGUF file: a third reader, where two read a text in two ways.

How texts are cut stands here in the words of the models' own tokenizer.json, which a GGUF file only has a name for. Left out
is the normalizer of some (NFC): GGUF files have no word for it, and neither llama.cpp nor Paceline applies it to their texts.
"""
import gguf
from tokenizers import Tokenizer
from tokenizer_kinds import LLAMA2_DECODER, LLAMA3, PREPEND, QWEN, added, byte_level, replace, sequence, split
import json

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
QWEN35 = QWEN.replace(r"?\p{L}+|", r"?[\p{L}\p{M}]+|").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
DIGITS = {"type": "Digits", "individual_digits": True}
HAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
GPT2 = byte_level(use_regex=True)
CUTS = {
    ("gpt-2", "mpt"): [GPT2],
    ("smollm", "starcoder", "refact", "command-r"): [DIGITS, GPT2],
    ("llama-bpe",): [split(LLAMA3), byte_level()],
    ("qwen2",): [split(QWEN), byte_level()],
    ("qwen35",): [split(QWEN35), byte_level()],
    ("deepseek-coder",): [split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(HAN), DIGITS, byte_level()],
    ("falcon", "default"): [{"type": "Punctuation", "behavior": "Contiguous"}, GPT2, {"type": "Digits", "individual_digits": False},
                            split("[0-9][0-9][0-9]")],
}
WHOLE_WORDS = {"llama-bpe"}  # ignore_merges


def fields_of(path):
    """The metadata of a file's tokenizer, without its common prefix."""
    prefix = "tokenizer.ggml."
    return {key.removeprefix(prefix): field.contents() for key, field in gguf.GGUFReader(path).fields.items() if key.startswith(prefix)}


def added_tokens(tokens, types, strips):
    """Tokens that are found in a text as they are spelled."""
    return [added(i, token, types[i] != USER_DEFINED, normalized=False, rstrip=strips and token not in ("<unk>", "<s>", "<|endoftext|>"))
            for i, token in enumerate(tokens) if types[i] in (UNKNOWN, CONTROL, USER_DEFINED) and token]


def pairs_of(tokens, scores):
    """SentencePiece's merges: every pair that makes a token, those of the highest scores first."""
    ids = {token: i for i, token in enumerate(tokens)}
    found = [(scores[i], token[:at], token[at:]) for i, token in enumerate(tokens) for at in range(1, len(token))
             if token[:at] in ids and token[at:] in ids]
    return [[left, right] for _, left, right in sorted(found, key=lambda merge: -merge[0])]


def description(path):
    """The tokenizer.json of a file's vocabulary, without what is put around a text; none: it is of no kind above."""
    fields = fields_of(path)
    tokens, pre = fields["tokens"], fields.get("pre", "default")
    types = fields.get("token_type") or [NORMAL] * len(tokens)
    out = {"version": "1.0", "added_tokens": added_tokens(tokens, types, pre == "phi-3"), "normalizer": None, "post_processor": None}
    model = {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "ignore_merges": pre in WHOLE_WORDS}
    if fields["model"] == "gpt2":
        steps = next((steps for names, steps in CUTS.items() if pre in names), None)
        if not steps:
            return None
        return out | {"model": model | {"merges": fields["merges"]}, "decoder": byte_level(), **sequence("pre_tokenizer", *steps)}
    unknown = next((token for i, token in enumerate(tokens) if types[i] == UNKNOWN), None)
    model |= {"byte_fallback": True, "fuse_unk": True, "unk_token": unknown}
    if fields["model"] == "gemma4":
        return out | {"model": model | {"merges": fields["merges"]}, "normalizer": replace(" ", "\u2581"),
                      "pre_tokenizer": split(" ", "MergedWithPrevious", kind="String"), **LLAMA2_DECODER}
    return out | {"model": model | {"merges": pairs_of(tokens, fields["scores"])}, "pre_tokenizer": None, **PREPEND, **LLAMA2_DECODER}


def third_reader(path):
    """Returns the function from a text to its ids; none: how the model cuts texts is not known here."""
    whole = description(path)
    if not whole:
        return None
    tokenizer = Tokenizer.from_str(json.dumps(whole))
    return lambda text: tokenizer.encode(text).ids
