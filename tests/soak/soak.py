#!/usr/bin/env python3
"""Mixed traffic between two daemons for hours, with faults, hostile clients and hosts.

A cycle starts verified transfers of several kinds, does one harm beside them, and waits for all.
Then nothing may be left: no session, no client, no receive slot, no descriptor. Transfers may fail
where a daemon was ended; wrong bytes, a daemon that ends by itself and whatever is left over are
findings. The last line is the sum; the exit status is 1 when there were findings.
"""

import argparse
import contextlib
import os
import random
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [os.path.join(TESTS, name) for name in ("support", "interop", "hostile")]

import attacks
import processes
import traffic
from bridge import Bridge
from daemon import DaemonError, Programs
from network import BridgedPair, NetworkError
from wired_hosts import NO_OFFLOADS, WiredHosts

SKIPPED = 77
SETTLE_S = 60
HARM_AFTER_S = 0.5
HARM_S = 3
FIRST_PORT = 20000
VICTIM_PORT = FIRST_PORT - 1
PORTS_PER_CYCLE = 10
STRANGERS = [f"10.9.5.{number}" for number in range(100, 110)]
# Of a daemon's resident memory, beyond what it had after its first cycles.
GROWTH_KIB_MAX = 64 << 10
WARM_CYCLES = 3
ROUGH = {"delay_us": 100, "loss_ppm": 5_000, "reorder_ppm": 10_000, "reorder_us": 300,
         "duplicate_ppm": 5_000}


class Life:
    """What one run of a daemon had when it was new, and what it has."""

    def __init__(self, host):
        self.host = host
        self.slots_free = min(worker["rx_slots_free"] for worker in self.workers())
        self.begin_anew()

    def begin_anew(self):
        """Another process has the daemon's place, with the same slots."""
        self.cycles = self.descriptors = self.resident_kib = 0

    def workers(self):
        return self.host.look("status")["workers"]

    def left_over(self):
        """What no client has and is in use all the same. Empty: nothing."""
        out = [f"{row['state']} {row['local']} {row.get('remote', '')}"
               for row in self.host.look("sessions")["sessions"] if row["state"] != "TIME-WAIT"]
        out += [f"client {row['label']}/{row['pid']}"
                for row in self.host.look("clients")["clients"]]
        out += [f"{worker['rx_slots_total'] - worker['rx_slots_free']} receive slots"
                for worker in self.workers() if worker["rx_slots_free"] < self.slots_free]
        return out

    def excess(self):
        """What the process has more of than after its first cycles."""
        folder = f"/proc/{self.host.pid}"
        descriptors = len(os.listdir(f"{folder}/fd"))
        with open(f"{folder}/status", encoding="ascii") as status:
            resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        if self.cycles <= WARM_CYCLES:
            self.descriptors, self.resident_kib = descriptors, resident
        found = []
        if descriptors > self.descriptors:
            found.append(f"{descriptors} descriptors, {self.descriptors} before")
        if resident > self.resident_kib + GROWTH_KIB_MAX:
            found.append(f"{resident} KiB resident, {self.resident_kib} before")
        return found

    def settle(self):
        """Waits until nothing is left of a cycle. Returns what is, all the same."""
        self.cycles += 1
        deadline = time.monotonic() + SETTLE_S
        # A worker's row of a client goes before the daemon has closed what it held of it.
        while (left := self.left_over() or self.excess()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left[:5]


class Soak:
    """Runs cycles on two hosts at a bridge, which are up inside a `with` block."""

    def __init__(self, build, seed):
        self.build, self.choose = build, random.Random(seed)
        self.programs = Programs(build)
        self.wire = BridgedPair(NO_OFFLOADS)
        self.harms = {name[5:].replace("_", " "): getattr(self, name) for name in dir(self)
                      if name.startswith("harm_")}
        self.findings, self.cycles, self.harmed = [], 0, 0
        self.payload_bytes = self.sessions = self.broken_off = 0

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            # It is up before the daemons look at their links.
            self.hosts = stack.enter_context(
                WiredHosts(self.programs, self.wire, {"tcp": {"user_timeout_ms": 10000}}))
            for number, host in ((1, self.hosts.a), (2, self.hosts.b)):
                host.address = f"10.9.5.{number}"
            self.lives = [Life(host) for host in (self.hosts.a, self.hosts.b)]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        return self._stack.__exit__(*exception)

    def find(self, text):
        self.findings.append(text)
        print(f"FINDING: {text}", flush=True)

    # ---- harms: each returns True when transfers may fail ----

    def harm_nothing(self):
        return False

    def harm_client_killed(self):
        self.with_victim(lambda victim: victim.kill())
        return False

    def harm_client_stopped(self):
        self.with_victim(lambda victim: victim.stop(HARM_S))
        return False

    def with_victim(self, harm):
        victim = traffic.Victim(self.hosts.a, self.hosts.b, VICTIM_PORT, self.choose)
        time.sleep(HARM_S)
        self.await_victim()
        harm(victim)
        time.sleep(1)
        victim.end()

    def await_victim(self):
        """Waits until the victim's server has sessions."""
        deadline = time.monotonic() + SETTLE_S
        while not any(row["state"] == "ESTABLISHED" and row["local"].endswith(f":{VICTIM_PORT}")
                      for row in self.hosts.a.look("sessions")["sessions"]):
            if time.monotonic() > deadline:
                self.find("the victim has no sessions")
                return
            time.sleep(0.1)

    def harm_cable_pulled(self):
        side = self.choose.choice((self.wire.left, self.wire.right))
        self.wire.pull_out(side)
        time.sleep(1)
        self.wire.plug_in(side)
        return False

    def harm_hostile_clients(self):
        program = os.path.join(TESTS, "hostile", "scribbler.py")
        hostile = [processes.start([sys.executable, program, host.socket,
                                    str(self.choose.randrange(1 << 30))])
                   for host in (self.hosts.a, self.hosts.b)]
        time.sleep(2 * HARM_S)
        for process in hostile:
            if process.poll() is not None:
                self.find(f"a scribbler ended by itself with status {process.returncode}")
            processes.end(process)
        return False

    def harm_stranger(self):
        action = self.choose.choice((attacks.send_garbage, attacks.flood_with_syns,
                                     attacks.break_an_honest_connection))
        mac = self.hosts.a.look("status")["ports"][0]["mac"]
        place = (self.wire.middle, self.wire.middle_devices[0])
        with attacks.Attack(place, STRANGERS, self.hosts.a.address, mac, action):
            time.sleep(HARM_S)
        return False

    def harm_daemon_killed(self):
        self.again(lambda host: host.kill())
        return True

    def harm_daemon_restarted(self):
        self.again(lambda host: host.stop())
        return True

    def harm_daemon_upgraded(self):
        life = self.choose.choice(self.lives)
        life.host.upgrade()
        life.begin_anew()
        return False

    def again(self, end):
        at = self.choose.randrange(2)
        host = self.lives[at].host
        end(host)
        host.start()
        host.wait_link()
        self.lives[at] = Life(host)

    # ---- a cycle ----

    def run_cycle(self):
        # Seldom one that begins a new life: leaks show in long ones.
        weights = [1 if "daemon" in name else 5 for name in self.harms]
        name = self.choose.choices(list(self.harms), weights)[0]
        rough = self.choose.choice(({}, ROUGH))
        port = FIRST_PORT + self.cycles % 100 * PORTS_PER_CYCLE
        with Bridge(self.build, self.wire, rough, rough, seed=self.cycles + 1):
            jobs = traffic.mixed(self.hosts.a, self.hosts.b, self.choose, port)
            for job in jobs:
                job.start()
            time.sleep(HARM_AFTER_S)
            may_fail = self.harms[name]()
            for job in jobs:
                job.join()
            self.judge(name, jobs, may_fail)
            self.settle(name)
        self.cycles += 1
        self.harmed += name != "nothing"

    def judge(self, name, jobs, may_fail):
        outcomes = [job.outcome for job in jobs]
        for outcome in outcomes:
            if outcome.error and (outcome.is_wrong or not may_fail):
                self.find(f"{name}: {outcome.name}: {outcome.error}")
        good = [outcome for outcome in outcomes if not outcome.error]
        self.broken_off += len(outcomes) - len(good)
        self.payload_bytes += sum(outcome.payload_bytes for outcome in good)
        self.sessions += sum(outcome.sessions for outcome in good)
        print(f"cycle {self.cycles}, {name}: {len(good)} of {len(outcomes)} jobs, "
              f"{self.payload_bytes >> 20} MiB and {self.sessions} sessions so far", flush=True)

    def settle(self, name):
        """Waits until the daemons have nothing in use, and looks at their processes."""
        for life in self.lives:
            if not life.host.is_running():
                raise DaemonError(f"{life.host.name} ended by itself\n{life.host.log_tail()}")
            for what in life.settle():
                self.find(f"{name}: {life.host.name}: left: {what}")

    def line(self):
        return (f"{self.cycles} cycles, {self.harmed} faults, {self.payload_bytes >> 20} MiB "
                f"verified, {self.sessions} sessions, {self.broken_off} transfers broken off by "
                f"ended daemons, {len(self.findings)} findings")


def main():
    parser = argparse.ArgumentParser(prog="tools/soak", description=__doc__.splitlines()[0])
    parser.add_argument("hours", type=float, nargs="?", default=2)
    parser.add_argument("--build", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    processes.exit_on_signals()
    processes.adopt_orphans()
    print(f"soak: seed {options.seed}", flush=True)
    try:
        with Soak(options.build, options.seed) as soak:
            end = time.monotonic() + 3600 * options.hours
            try:
                while time.monotonic() < end:
                    soak.run_cycle()
            except DaemonError as error:
                soak.find(str(error))
            print(soak.line())
            return 1 if soak.findings else 0
    except NetworkError as error:
        print(f"SKIP: {error}")
        return SKIPPED


if __name__ == "__main__":
    sys.exit(main())
