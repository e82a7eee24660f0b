"""The wire that loses, delays and reorders: interop_bridge between the ends of a BridgedPair."""

import json
import os
import subprocess

import processes

START_TIMEOUT_S = 60


class BridgeError(Exception):
    """The bridge did not start, or ended early; the text is its output."""


class Bridge:
    """Frames pass while a `with` block lasts.

    `there` (left to right) and `back` are dicts of what interop_bridge takes, such as
    {"delay_us": 500, "loss_ppm": 20000}. After the block, `counters` has what became of frames:
    counters["there"]["lost"]. `limit_s` ends a bridge that is not stopped.
    """

    def __init__(self, build, wire, there=None, back=None, seed=1, limit_s=600):
        program = os.path.join(os.path.abspath(build), "tests", "interop", "interop_bridge")
        self._command = wire.inside(
            wire.middle, program, *wire.middle_devices, "--seed", str(seed), "--seconds",
            str(limit_s), "--there", self._path(there), "--back", self._path(back))
        self._process = None
        self.counters = None

    @staticmethod
    def _path(options):
        return ",".join(f"{key}={value}" for key, value in (options or {}).items())

    def __enter__(self):
        # It simulates a network, so it must not be limited by processor time.
        self._process = processes.start(["nice", "-n", "-10", *self._command], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = processes.read_line(self._process, START_TIMEOUT_S, self._process.stdout)
        if said != "bridging\n":
            processes.end(self._process)
            raise BridgeError(self._end()[1].strip())
        return self

    def __exit__(self, kind, *_exception):
        self._process.terminate()
        out, said = self._end()
        if self._process.returncode == 0:
            self.counters = json.loads(out)
        elif kind is None:
            raise BridgeError(said.strip() or f"ended with {self._process.returncode}")

    def _end(self):
        try:
            return self._process.communicate(timeout=START_TIMEOUT_S)
        finally:
            processes.end(self._process)
            self._process.stdout.close()
            self._process.stderr.close()
