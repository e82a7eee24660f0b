"""Child processes that do not outlive the program that started them."""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
libc = ctypes.CDLL(None, use_errno=True)
_defaults = {}  # of start() and run()


def _die_with_parent():
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start(command, **options):
    """subprocess.Popen whose process the kernel kills when this process dies first."""
    return subprocess.Popen(command, preexec_fn=_die_with_parent, **{**_defaults, **options})


@contextlib.contextmanager
def as_services():
    """What start() and run() start meanwhile has a session of its own, as a service or a user's job
    has. The kernel's scheduler then takes it for a group of its own (autogroup)."""
    _defaults["start_new_session"] = True
    try:
        yield
    finally:
        _defaults.clear()


def run(command, timeout_s, **options):
    """subprocess.run of such a process, always with a time limit; its output is text by default."""
    return subprocess.run(command, preexec_fn=_die_with_parent, timeout=timeout_s, check=False,
                          **{"text": True, **_defaults, **options})


class NoLine(AssertionError):
    """A process has not written a line in time."""


def read_line(process, timeout_s, pipe=None):
    """The next line that the process writes to `pipe`, its stderr by default; what there is of it
    at the end of the pipe. Ends a process that writes none, and raises NoLine. Nobody may read from
    the pipe object before: its buffer would hide lines."""
    descriptor = (pipe or process.stderr).fileno()
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    line, deadline = b"", time.monotonic() + timeout_s
    while not line.endswith(b"\n"):
        if not poller.poll(max(0, deadline - time.monotonic()) * 1000):
            end(process)
            raise NoLine(f"{process.args}: no line within {timeout_s} s, after {line!r}")
        if not (byte := os.read(descriptor, 1)):
            break
        line += byte
    return line.decode()


def forget_lines(pipe):
    """Reads what has been written to the pipe."""
    poller = select.poll()
    poller.register(pipe.fileno(), select.POLLIN)
    while poller.poll(0) and os.read(pipe.fileno(), 1 << 16):
        pass


def end(process, patience_s=10):
    """Terminates the process, kills it after `patience_s`; returns its exit status."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def exit_on_signals():
    """SIGTERM and SIGHUP end this program through its `finally` blocks, as SIGINT does."""
    def leave(number, _frame):
        raise SystemExit(128 + number)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, leave)


def adopt_orphans():
    """From now on a descendant whose parent ends is a child of this program."""
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


class Adopted:
    """A child that another child has left behind: what a caller needs of subprocess.Popen."""

    def __init__(self, pid):
        self.pid = pid
        self.returncode = None

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid != 0:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout=None):
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.01)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)
