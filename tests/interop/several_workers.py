#!/usr/bin/env python3
"""One daemon with a worker on each core, on one port that divides its packets among them."""

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import time
import unittest

import bed
import processes
from network import VethPair
from two_hosts import cores
from wires import LeftTap

PORT = 5201
# Enough sessions that the hash gives some to each worker, whatever its seed.
SESSIONS = 32
MIB = 1 << 20
STEP_TIMEOUT_S = 120
TRANSFER_TIMEOUT_S = 120
# Of a client that the test ends.
LASTING_S = 600
# What a worker sends and receives while its system calls are traced. By hand: more.
TRACED_BYTES = int(os.environ.get("LYRE_TRACED_MIB", "32")) * MIB


def two_workers():
    return {"workers": {"cores": sorted(set(cores()))}}


def worker_threads(pid):
    """Thread ids of the workers, in order."""
    threads = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8") as file:
            name = file.read().strip()
        if name.startswith("lyre-core"):
            threads[name] = int(thread)
    return [threads[name] for name in sorted(threads)]


class Trace:
    """System calls of one thread while a `with` block lasts: `calls` by name, afterwards."""

    def __init__(self, thread, folder):
        self._path = os.path.join(folder, f"calls-{thread}")
        self._thread = thread

    def __enter__(self):
        self._process = processes.start(
            ["strace", "-c", "-o", self._path, "-p", str(self._thread)], stderr=subprocess.PIPE,
            text=True)
        said = processes.read_line(self._process, STEP_TIMEOUT_S)
        if "attached" not in said:
            processes.end(self._process)
            self._process.stderr.close()
            raise unittest.SkipTest(f"strace: {said.strip()}")
        return self

    def __exit__(self, *_exception):
        processes.end(self._process)
        self._process.stderr.close()
        with open(self._path, encoding="utf-8") as file:
            rows = re.findall(r"^ +[\d.]+ +[\d.]+ +\d+ +(\d+) .*?(\w+)$", file.read(), re.MULTILINE)
        self.calls = {name: int(count) for count, name in rows if name != "total"}


class SeveralWorkers(unittest.TestCase):
    make_wire = None

    @classmethod
    def setUpClass(cls):
        cls.bed = bed.Bed(cls.make_wire(), two_workers())
        cls.enterClassContext(cls.bed)

    def serve(self, side):
        command, environment = side("perf", "server", "--listen", f":{PORT}")
        serving = processes.start(command, env=environment, stderr=subprocess.PIPE, text=True,
                                  stdout=subprocess.DEVNULL)
        self.addCleanup(serving.stderr.close)
        self.addCleanup(processes.end, serving)
        self.assertIn("listening", processes.read_line(serving, STEP_TIMEOUT_S))

    def ask(self, side, address, *options):
        """A client of many sessions that send both ways, and is still running."""
        command, environment = side(
            "perf", "client", bed.endpoint(address, PORT), "--sessions", str(SESSIONS),
            "--direction", "both", "--json", *options)
        client = processes.start(command, env=environment, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        for pipe in (client.stdout, client.stderr):
            self.addCleanup(pipe.close)
        self.addCleanup(processes.end, client)
        return client

    def answer(self, client):
        out, errors = client.communicate(timeout=TRANSFER_TIMEOUT_S)
        self.assertEqual((client.returncode, errors), (0, ""))
        return json.loads(out)

    def workers(self):
        return self.bed.daemon.look("stats")["workers"]

    def exchange(self, server, client, address):
        """Hashes agree, and each worker had sessions of its own."""
        before = self.workers()
        self.serve(server)
        asked = self.answer(self.ask(client, address, "--bytes", str(MIB), "--verify"))
        for flow in ("sent", "received"):
            self.assertEqual(asked[flow]["bytes"], SESSIONS * MIB)
            self.assertTrue(asked[flow]["intact"] and asked[flow]["sha256_equal"])
        return [{key: now["counters"][key] - then["counters"][key] for key in now["counters"]}
                for then, now in zip(before, self.workers())]

    def kernel_dials(self):
        return self.check(self.exchange(self.bed.by_lyre, self.bed.by_kernel, bed.lyre()))

    def lyre_dials(self):
        return self.check(self.exchange(self.bed.by_kernel, self.bed.by_lyre, bed.kernel()))

    def check(self, workers):
        """Returns how many sessions changed their worker."""
        for worker in workers:
            self.assertGreater(worker["tcp_payload_in"], MIB)
            self.assertGreater(worker["tcp_payload_out"], MIB)
        return sum(worker["handed_over"] for worker in workers)


class PacketSocketsTest(SeveralWorkers):
    """The port knows to which worker the kernel will give an answer."""

    make_wire = functools.partial(VethPair, bed.OFFLOADS)

    def test_sessions_that_the_kernel_dials_live_where_they_arrive(self):
        self.kernel_dials()

    def test_sessions_that_lyre_dials_begin_where_the_answer_arrives(self):
        self.assertEqual(self.lyre_dials(), 0)

    def sessions_of(self, worker):
        return [session for session in self.bed.daemon.look("sessions")["sessions"]
                if session["worker"] == worker and "remote" in session]

    def wait_until(self, is_true, client, what):
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while not is_true():
            self.assertIsNone(client.poll(), f"the client ended, and {what}")
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def least_moved(self, before):
        """Bytes that the worker with fewer of them has sent and received since then."""
        return min(worker["counters"][name] - earlier["counters"][name]
                   for worker, earlier in zip(self.workers(), before)
                   for name in ("tcp_payload_in", "tcp_payload_out"))

    def test_no_worker_waits_for_another(self):
        """Under load in both directions: the system calls of a worker never include futex."""
        self.serve(self.bed.by_lyre)
        client = self.ask(self.bed.by_kernel, bed.lyre(), "--seconds", str(LASTING_S))
        self.wait_until(lambda: self.sessions_of(0) and self.sessions_of(1), client,
                        "one worker has no sessions")
        threads = worker_threads(self.bed.daemon.pid)
        self.assertEqual(len(threads), 2)
        with contextlib.ExitStack() as stack:
            traces = [stack.enter_context(Trace(thread, self.bed.folder)) for thread in threads]
            before = self.workers()
            self.wait_until(lambda: self.least_moved(before) > TRACED_BYTES, client,
                            "one worker does nothing")
        for trace in traces:
            print(f"worker thread: {trace.calls}")
            # The port sends by this system call, so the trace shows that the worker was active.
            self.assertGreater(trace.calls.get("sendmmsg", 0), 0)
            self.assertNotIn("futex", trace.calls)


class TapTest(SeveralWorkers):
    """The port does not know how the kernel divides what it gives."""

    make_wire = functools.partial(LeftTap, bed.OFFLOADS)

    def test_sessions_that_the_kernel_dials_live_where_they_arrive(self):
        self.kernel_dials()

    def test_sessions_that_lyre_dials_move_to_where_the_answer_arrives(self):
        self.assertGreater(self.lyre_dials(), 0)


def reason_to_skip():
    if len(set(cores())) < 2:
        return "there is one core"
    return None if shutil.which("strace") else "strace is not installed"


if __name__ == "__main__":
    bed.main(reason_to_skip)
