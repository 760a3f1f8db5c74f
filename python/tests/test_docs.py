"""Every snippet of the documents runs, and so does every example."""

import re
import subprocess
import sys

import pytest
from conftest import ROOT


def snippets(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_snippets_run_in_their_order(page, tmp_path, run):
    blocks = snippets(page)
    assert blocks
    run("\n".join(blocks))


def test_the_example_draws_or_prints(tmp_path):
    example = ROOT / "python/examples/acceptance.py"
    done = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "acceptance rate 0." in done.stdout
    assert "position 6" in done.stdout or (tmp_path / "acceptance.png").exists()


def test_types_are_right(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(
        "import paceline\n"
        "engine = paceline.Engine('demo', draft=None, threads=1, faults={'heartbeat': 1.0})\n"
        "answer = engine.complete('x', max_tokens=3, speculation='sync', logit_bias={1: 2.0})\n"
        "text: str = answer.text\n"
        "rate: float = answer.speculation.acceptance_rate\n"
        "tokens: list[int] = engine.apply_chat_template([{'role': 'user', 'content': 'x'}])\n"
        "for delta in engine.stream([1, 2]):\n"
        "    sources: list[str] = delta.sources\n"
        "engine.complete('x', temprature=1)  # type: ignore[call-arg]\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", "use.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
