"""OpenVINO GenAI as PyPI has it, in an environment of its own under build/peers, made once (several GB), and models as it reads them."""
import json
import shutil
import sys
import venv

from llama_cpp import HOME, ROOT, run, say

VERSION = "2026.4.1"
PACKAGES = [f"openvino=={VERSION}", f"openvino-genai=={VERSION}.0", f"openvino-tokenizers=={VERSION}.0", "optimum-intel==2.2.0", "nncf==3.4.0",
            "torch==2.13.0"]


def install():
    """The environment's interpreter."""
    home = HOME / f"openvino-{VERSION}"
    interpreter = home / "bin" / "python"
    if not (home / "whole").exists():
        say(f"installing OpenVINO GenAI {VERSION} (once)")
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        run(interpreter, "-m", "pip", "--quiet", "install", "uv")
        run(home / "bin" / "uv", "pip", "install", "--only-binary", ":all:", "--python", interpreter, *PACKAGES, stdout=sys.stderr)
        (home / "whole").touch()
    return interpreter


def export(model, name, weights):
    """Writes a folder with a checkpoint for OpenVINO, once. weights: fp16, int8 or int4."""
    to = HOME / f"{name}-openvino-{weights}"
    if not to.exists():
        say(f"exporting {name} to {to.name}")
        partial = to.with_name(to.name + ".part")
        shutil.rmtree(partial, ignore_errors=True)
        groups = ["--group-size-fallback", "adjust"] if weights == "int4" else []
        run(install().with_name("optimum-cli"), "export", "openvino", "-m", model, "--task", "text-generation-with-past", "--weight-format", weights,
            *groups, partial, stdout=sys.stderr, stderr=sys.stderr)
        partial.rename(to)
    return to


def engine(model, *options):
    """The command of an engine of an exported model; tools/openvino_engine.py says what goes behind it."""
    return [install(), ROOT / "tools" / "openvino_engine.py", model, *options]


def timed(model, bodies, *options):
    """Seconds to each request's first part, from there to its last one, and the tokens behind the first, in one stream, one by one."""
    lines = "\n".join(json.dumps(body) for body in bodies)
    return json.loads(run(*engine(model, *options), "time", input=lines, capture_output=True).stdout)
