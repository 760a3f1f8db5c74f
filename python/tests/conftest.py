import os
from pathlib import Path

import paceline
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def engine():
    with paceline.Engine(threads=1) as opened:
        yield opened


@pytest.fixture
def run():
    """Runs Python code in a process of its own; returns what it printed, or fails."""
    import subprocess
    import sys

    def go(code: str, *, status: int = 0, timeout: float = 120) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout
        )
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    return go


@pytest.fixture
def headers() -> Path:
    return Path(os.environ.get("PACELINE_HEADERS", ROOT / "include" / "paceline"))
