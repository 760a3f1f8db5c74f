"""`python -m paceline serve ...`: runs the program, which the wheel carries."""

import os
import sys
from pathlib import Path
from typing import NoReturn


def main() -> NoReturn:
    program = str(Path(__file__).parent / "bin" / "paceline")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
