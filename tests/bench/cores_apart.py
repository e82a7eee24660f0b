"""How far two cores are apart while something is measured: the time of a cache line between them.

The host of a virtual machine moves its processors between cores that share a cache and cores that
do not."""

import json
import subprocess
import time

import processes
from two_hosts import cores

# The probe looks each 25 ms.
LOOK_S = 0.3


class CoresApart:
    """Looks while its `with` block runs; then `line_ns` is the median, or None: there is one core
    only, or the two were never looked at together."""

    def __init__(self, program):
        self._program = program
        self._probe = None
        self.line_ns = None

    def __enter__(self):
        first, last = cores()
        if first != last:
            self._probe = processes.start([self._program, str(first), str(last)],
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                          text=True)
        return self

    def __exit__(self, *_exception):
        if self._probe is None:
            return False
        if processes.end(self._probe) == 0:
            self.line_ns = json.loads(self._probe.stdout.read())["line_ns"]
        self._probe.stdout.close()
        return False


def line_ns_now(program):
    """The same, of a moment in which nothing is measured: a look delays one round trip in some
    hundred, and high percentiles are made of those."""
    with CoresApart(program) as apart:
        time.sleep(LOOK_S)
    return apart.line_ns


def are_near(lines_ns, limit_ns):
    """Whether a round counts in which cache lines took so long. No limit, or no look: it does."""
    return limit_ns is None or all(ns is None or ns <= limit_ns for ns in lines_ns)
