"""Child processes that do not outlive the program that started them."""

import ctypes
import signal
import subprocess

_PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent():
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start(command, **options):
    """subprocess.Popen whose process the kernel kills when this process dies first."""
    return subprocess.Popen(command, preexec_fn=_die_with_parent, **options)


def run(command, timeout_s, **options):
    """subprocess.run of such a process, always with a time limit; its output is text by default."""
    options.setdefault("text", True)
    return subprocess.run(command, preexec_fn=_die_with_parent, timeout=timeout_s, check=False,
                          **options)


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
