"""Signals, forks and the end of the interpreter: nothing hangs, and nothing crashes."""

import signal
import subprocess
import sys

OPEN = "import paceline, os, threading, signal\nengine = paceline.Engine(threads=1)\n"
ENDLESS = "ignore_eos=True, temperature=0"


def interrupted(code):
    """Sends SIGINT to a program that says "ready"; returns what it printed then, and its status."""
    process = subprocess.Popen(
        [sys.executable, "-uc", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    return out, error, process.returncode


def test_ctrl_c_interrupts_complete_and_the_engine_goes_on():
    code = OPEN + f"""
engine.close(); engine = paceline.Engine(threads=1, devices="sim:chinchilla-70b", draft=None)
threading.Thread(target=lambda: (next(engine.stream("x", {ENDLESS})), print("ready"))).start()
try:
    engine.complete("x = 1", {ENDLESS})
except KeyboardInterrupt:
    print("interrupted", len(engine.complete("x", max_tokens=3, {ENDLESS}).tokens))
"""
    out, error, status = interrupted(code)
    assert (out, status) == ("interrupted 3\n", 0), error


def test_ctrl_c_interrupts_a_stream_and_an_event_loop():
    code = OPEN + f"""
engine.close(); engine = paceline.Engine(threads=1, devices="sim:chinchilla-70b", draft=None)
import asyncio
async def read():
    first = True
    async for _ in engine.stream("x", {ENDLESS}):
        if first: print("ready")
        first = False
asyncio.run(read())
"""
    out, error, status = interrupted(code)
    assert status == -signal.SIGINT and "KeyboardInterrupt" in error


def test_an_open_engine_at_exit(run):
    run(OPEN + f'engine.complete("x", max_tokens=2)')
    run(OPEN + f'stream = engine.stream("x", {ENDLESS}); next(stream)')
    run(OPEN + f'stream = engine.stream("x", {ENDLESS}); next(stream); raise SystemExit(3)', status=3)
    run(OPEN + f'globals()["me"] = [engine]; engine.me = globals()')


def test_an_engine_is_closed_before_the_interpreter_ends(run, tmp_path):
    trace = tmp_path / "trace.json"
    code = f"""
import ctypes, paceline
engine = paceline.Engine(threads=1, trace_file={str(trace)!r})
engine.complete("x", max_tokens=2)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine._native))  # Something that never lets go of it.
"""
    run(code)
    assert trace.exists()  # It is written when an engine is closed.
    trace.unlink()
    run(code + "raise SystemExit(3)", status=3)
    assert trace.exists()


def test_a_drafter_at_work_at_exit(run):
    out = run("""
import paceline, threading
class Busy(paceline.Drafter):
    def propose(self, tasks):
        inside.set()
        for task in tasks:
            for _ in range(task.wanted): task.propose(5)
inside = threading.Event()
engine = paceline.Engine(draft=Busy(), threads=1, log=lambda *said: None)
streams = [engine.stream("x", ignore_eos=True, temperature=0, speculation="sync") for _ in range(8)]
inside.wait()
print("end")
""")
    assert out == "end\n"


def test_threads_that_wait_at_exit(run):
    run(OPEN + f"""
def wait():
    while True:
        begun.set()
        engine.complete("x", {ENDLESS})
begun = threading.Event()
threading.Thread(target=wait, daemon=True).start()
begun.wait()
""")


def test_a_drafter_that_sleeps_at_exit(run):
    out = run("""
import paceline, threading, time
class Slow(paceline.Drafter):
    def propose(self, tasks):
        inside.set()
        time.sleep(3600)
inside = threading.Event()
engine = paceline.Engine(draft=Slow(), threads=1, faults={"stall_patience": 0.1})
stream = engine.stream("x", ignore_eos=True, temperature=0, speculation="sync")
inside.wait()
print("end")
""")
    assert out == "end\n"


def test_an_event_loop_that_ends_with_a_stream_half_read(run):
    run(OPEN + f"""
import asyncio
async def main():
    global stream
    stream = engine.stream("x", {ENDLESS})
    async for _ in stream:
        return
asyncio.run(main())
""")


def test_forked_children_refuse_and_end(run):
    out = run(OPEN + f"""
stream = engine.stream("x", {ENDLESS}); next(stream)
for _ in range(3):
    child = os.fork()
    if child == 0:
        for use in (lambda: engine.complete("x"), lambda: next(stream), lambda: engine.stream("y")):
            try:
                use()
            except paceline.Error as error:
                assert error.code == "unavailable", error.code
            else:
                raise AssertionError("a child used its parent's engine")
        engine.close()
        raise SystemExit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
stream.close()
print(len(engine.complete("x", max_tokens=3, {ENDLESS}).tokens))
""")
    assert out.startswith("3\n")  # From 3.12 on Python warns of forks among threads.


def test_a_child_opens_an_engine_of_its_own(run):
    run("""
import os, paceline
child = os.fork()
if child == 0:
    with paceline.Engine(threads=1) as engine:
        os._exit(len(engine.complete("x", max_tokens=4, ignore_eos=True).tokens))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
""")


def test_python_m_paceline_runs_the_program():
    command = [sys.executable, "-m", "paceline"]
    said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert "paceline" in said.stdout.lower()
    server = subprocess.Popen([*command, "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout.readline().startswith("http://")
    finally:
        server.terminate()
    assert server.wait(timeout=60) == 0
