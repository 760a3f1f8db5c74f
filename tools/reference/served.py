"""What the checks of `paceline serve` share: a server to ask, and a list of what is to hold."""

import contextlib
import subprocess
import sys
import tempfile

PROGRAM = "build/release/apps/paceline"
KEY = "a-key-of-the-check"


@contextlib.contextmanager
def server(*options):
    """A server on a port of its own, by default of the demo pair; gives its address and process."""
    process = subprocess.Popen([PROGRAM, "serve", "--port", "0", "--log-level", "off", *options],
                               stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.terminate()
        assert process.wait(60) == 0, "the server did not end in good order"


@contextlib.contextmanager
def guarded_server(*options):
    """The same, for those who have KEY."""
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write(KEY + "\n")
        keys.flush()
        with server("--api-key-file", keys.name, *options) as served:
            yield served


class Checks:
    """Functions that raise unless something holds. Each prints a line, whatever the others do."""

    def __init__(self):
        self.functions = []
        self.passed = 0
        self.failed = 0

    def add(self, function):
        """A decorator: `run_all` runs the function."""
        self.functions.append(function)
        return function

    def run_all(self, *arguments):
        for function in self.functions:
            self.run(function, *arguments)

    def run(self, function, *arguments):
        try:
            function(*arguments)
            print(f"{function.__name__}: passed", flush=True)
            self.passed += 1
        except Exception as error:
            print(f"{function.__name__}: FAILED: {type(error).__name__}: {error}", flush=True)
            self.failed += 1

    def end(self, client):
        """Ends the program. client: what asked, and its version."""
        print(f"{client}: {self.passed} of {self.passed + self.failed} passed")
        sys.exit(self.failed > 0)
