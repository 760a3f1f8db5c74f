"""What tables of drafts and stages on nodes share: programs that run meanwhile, relays, and steps as `bench` measures them."""
import contextlib
import os
import signal
import subprocess

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


@contextlib.contextmanager
def running(command):
    """Gives the first line that a program says; at the end, what it says then."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    said = {"first": process.stdout.readline().strip(), "last": ""}
    try:
        yield said
    finally:
        process.send_signal(signal.SIGINT)
        said["last"] = process.communicate()[0].strip()


def relay(build, port, *options):
    """A relay to this port of the machine. options: of tests/network/delaying_relay, the delay first."""
    return running([os.path.join(build, "tests", "network", "delaying_relay"), "0", "127.0.0.1", port, *options])


def microseconds_late(relay):
    """How late a relay that has ended was on average."""
    return float(relay["last"].split("late by ")[1].split()[0])


def seconds_of(steps, rows):
    """A target step of so many rows, between those that were measured."""
    known = sorted((int(k), s) for k, s in steps["target_seconds"].items())
    below = max(k for k in known if k[0] <= rows)
    above = min(k for k in known if k[0] >= rows)
    if above == below:
        return below[1]
    return below[1] + (above[1] - below[1]) * (rows - below[0]) / (above[0] - below[0])
