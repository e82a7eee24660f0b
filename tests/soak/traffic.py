"""Jobs that move bytes between two hosts and check every one of them."""

import json
import signal
import subprocess
import threading
import time
from dataclasses import dataclass

import processes

# By which `lyre perf` says that other bytes came than were sent.
WRONG_BYTES = "bytes differ"
JOB_TIMEOUT_S = 120


@dataclass
class Outcome:
    """What became of a job. `error` is empty when all of its bytes came."""

    name: str
    payload_bytes: int = 0
    sessions: int = 0
    error: str = ""

    @property
    def is_wrong(self):
        return WRONG_BYTES in self.error


class Job(threading.Thread):
    """`lyre perf` between two daemons; the bytes are those of a pattern, and verified."""

    def __init__(self, name, server, client, address, port, arguments, sessions=1):
        super().__init__(daemon=True)
        self.outcome = Outcome(name, sessions=sessions)
        self._server, self._client = server, client
        self._at = f"{address}:{port}"
        self._port = port
        self._arguments = arguments

    def run(self):
        try:
            self._transfer()
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            self.outcome.error = self.outcome.error or repr(error)

    def _transfer(self):
        # Without --once, which means one session. The client compares what both sides received.
        command, environment = self._server.lyre("perf", "server", "--listen", f":{self._port}")
        serving = processes.start(command, env=environment, text=True, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE)
        try:
            first = processes.read_line(serving, JOB_TIMEOUT_S)
            if "listening" not in first:
                self.outcome.error = f"server: {first.strip()}"
                return
            command, environment = self._client.lyre("perf", "client", self._at, "--json",
                                                     *self._arguments)
            done = processes.run(command, JOB_TIMEOUT_S, env=environment, capture_output=True)
            if done.returncode != 0:
                self.outcome.error = done.stderr.strip() or f"status {done.returncode}"
                return
            report = json.loads(done.stdout)
            self.outcome.payload_bytes = sum(report[way]["bytes"] for way in ("sent", "received")
                                             if way in report)
        finally:
            processes.end(serving)
            serving.stderr.close()


def mixed(a, b, choose, port):
    """Jobs of every kind, both ways, on ports from `port` on."""
    both = ["--direction", "both"]
    kinds = [
        ("bulk", [*both, "--bytes", f"{choose.randrange(4, 33)}MiB", "--verify"], 1),
        ("copying", [*both, "--bytes", f"{choose.randrange(1, 9)}MiB", "--copy"], 1),
        ("many", [*both, "--bytes", "128KiB", "--sessions", "32"], 32),
        ("requests", ["--ping-pong", "--sessions", "16", "--count", "200"], 16),
        ("small", ["--bytes", "2000001", "--block", str(choose.randrange(1024, 3000))], 1),
    ]
    jobs = []
    for at, (name, arguments, sessions) in enumerate(kinds):
        server, client = (a, b) if choose.random() < 0.5 else (b, a)
        jobs.append(Job(name, server, client, server.address, port + at, arguments, sessions))
    return jobs


class Victim:
    """A transfer that is broken off: one of its processes is killed, or stopped for a while."""

    def __init__(self, server, client, port, choose):
        self._choose = choose
        command, environment = server.lyre("perf", "server", "--listen", f":{port}")
        self._server = processes.start(command, env=environment, text=True,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        processes.read_line(self._server, JOB_TIMEOUT_S)
        command, environment = client.lyre("perf", "client", f"{server.address}:{port}",
                                           "--seconds", "60", "--sessions", "8",
                                           "--direction", "both")
        self._client = processes.start(command, env=environment, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)

    def kill(self):
        self._choose.choice((self._server, self._client)).kill()

    def stop(self, seconds):
        victim = self._choose.choice((self._server, self._client))
        victim.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        victim.send_signal(signal.SIGCONT)

    def end(self):
        for process in (self._client, self._server):
            processes.end(process)
        self._server.stderr.close()
