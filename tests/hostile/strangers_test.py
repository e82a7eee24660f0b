#!/usr/bin/env python3
"""What a stranger on the wire may not do to a daemon and the connections of others.

A host without a kernel attacks over AF_PACKET. Beside it a Linux kernel transfers to the same
daemon and back: its bytes must come, and its transfers must not stop. Throughput is printed, and
never asserted.

usage: strangers_test.py --build FOLDER [--seconds S] [TEST...]   exit status 77: skipped
"""

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "interop"), os.path.join(HERE, "..", "support")]

import attacks
import bed
import processes
from attacks import ECHO_PORT, OTHER_PORT, STEP_TIMEOUT_S, STRANGERS, Attack
from network import NetworkError, VethPair
from peers import Namespace, receive_all

TRANSFER_BYTES = 1 << 20
# Exit statuses of lyre_peer: LYRE_E_RESET, LYRE_E_TIMEDOUT.
PEER_RESET, PEER_TIMED_OUT = 1, 3
SKIPPED = 77


class Strangers(unittest.TestCase):
    seconds = 3

    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(bed.Bed(sections={"tcp": {}}))
        cls.mac = cls.bed.daemon.look("status")["ports"][0]["mac"]

    def setUp(self):
        self.assertEqual([], self.own_sessions())
        self.free_before = self.worker()["rx_slots_free"]
        self.addCleanup(self.check_that_nothing_is_left)
        self.start_echo(ECHO_PORT)

    def check_that_nothing_is_left(self):
        """After the clients: the daemon runs, and has no session and no receive slot in use."""
        self.assertTrue(self.bed.daemon.is_running(), self.bed.daemon.log_tail())
        self.until(lambda: self.own_sessions() == [], lambda: f"left: {self.own_sessions()}")
        self.until(lambda: self.worker()["rx_slots_free"] >= self.free_before,
                   lambda: f"{self.free_before} slots were free, now {self.worker()}")

    def start_echo(self, port, *options):
        command, environment = self.bed.lyre_peer("echo", f":{port}", *options)
        echo = processes.start(command, env=environment, stdout=subprocess.PIPE, text=True)
        # It says a line for each session, and waits where nobody reads them.
        rest = threading.Thread(target=echo.stdout.read)
        self.addCleanup(echo.stdout.close)
        self.addCleanup(rest.join)
        self.addCleanup(processes.end, echo)
        first = processes.read_line(echo, STEP_TIMEOUT_S, echo.stdout)
        rest.start()
        self.assertEqual("listening\n", first)
        return echo

    def stop_process(self, process):
        process.send_signal(signal.SIGSTOP)
        self.addCleanup(process.send_signal, signal.SIGCONT)

    def worker(self):
        return self.bed.daemon.look("status")["workers"][0]

    def own_sessions(self):
        """State, and both ends, of those that are not listeners."""
        return [(row["state"], row["local"], row["remote"])
                for row in self.bed.daemon.look("sessions")["sessions"]
                if row["state"] not in ("LISTEN", "TIME-WAIT")]

    def until(self, is_true, what):
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while not is_true():
            if time.monotonic() > deadline:
                self.fail(what())
            time.sleep(0.05)

    def honest_socket(self, port=0, to=ECHO_PORT):
        with Namespace(self.bed.wire.right):
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.settimeout(STEP_TIMEOUT_S)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.addCleanup(made.close)
        made.bind((bed.KERNEL, port))
        made.connect((bed.LYRE, to))
        return made

    def exchange(self, connection, text):
        """Sends the text from another thread, and expects it back."""
        sender = threading.Thread(target=connection.sendall, args=(text,))
        sender.start()
        got = bytearray()
        while len(got) < len(text):
            part = connection.recv(1 << 16)
            self.assertTrue(part, "the connection ended")
            got += part
        sender.join()
        self.assertEqual(text, bytes(got))

    def transfer_beside(self, action, *drops, has_effect=lambda: True):
        """Transfers on one connection, which is open before the attack, until the time is over, at
        least once. Each of `drops` is a list of drop reasons: the daemon must drop packets of the
        attack for one of them. `has_effect` must be true at some time of the attack."""
        before = [self.dropped(reasons) for reasons in drops]

        def missing():
            return [reasons for reasons, count in zip(drops, before)
                    if self.dropped(reasons) == count]

        with self.honest_socket(attacks.HONEST_PORT) as connection:
            with self.attack(action) as attack:
                begin, count, rounds = time.monotonic(), 0, attack.run.rounds.value
                while (count == 0 or time.monotonic() < begin + self.seconds
                       or attack.run.rounds.value == rounds):
                    self.exchange(connection, random.Random(count).randbytes(TRANSFER_BYTES))
                    self.expect_free_slots()
                    count += 1
                rate = count * (TRANSFER_BYTES >> 20) / (time.monotonic() - begin)
                self.until(lambda: not missing(), lambda: f"no packet was dropped for {missing()}")
                self.until(has_effect, lambda: f"{action.__name__} has no effect")
            connection.shutdown(socket.SHUT_WR)
            self.assertEqual(b"", receive_all(connection))
        print(f"{action.__name__}: {rate:.0f} MiB/s each way beside {attack.run.rounds.value} "
              "rounds", flush=True)
        return attack.run

    def expect_free_slots(self):
        """A 16th is kept free, half of which takes bytes that a reader waits for."""
        worker = self.worker()
        self.assertGreater(32 * worker["rx_slots_free"], worker["rx_slots_total"])

    def dropped(self, reasons):
        """Packets that were dropped for one of the reasons."""
        return sum(worker["drops"][reason] for worker in self.bed.daemon.look("stats")["workers"]
                   for reason in reasons)

    def attack(self, action):
        place = (self.bed.wire.right, self.bed.wire.device)
        return Attack(place, STRANGERS, bed.LYRE, self.mac, action)

    def test_bytes_behind_a_gap(self):
        self.transfer_beside(attacks.bytes_behind_a_gap, ["rx_pool_low"])

    def test_a_stopped_server(self):
        stopped = self.start_echo(OTHER_PORT)
        self.stop_process(stopped)
        self.transfer_beside(attacks.fill_a_stopped_server,
                             ["tcp_out_of_window", "rx_budget", "rx_pool_low"])

    def test_a_flood_of_syns(self):
        with self.attack(attacks.flood_with_syns) as attack:
            end, count = time.monotonic() + self.seconds, 0
            while count == 0 or time.monotonic() < end:
                with self.honest_socket() as connection:
                    self.exchange(connection, b"opened beside a flood" * 100)
                count += 1
            print(f"{count} connections opened beside {50 * attack.run.rounds.value} SYNs",
                  flush=True)

    def test_handshakes_at_a_stopped_server(self):
        """With a backlog of 1 cookies answer. What the server has not taken stays within it."""
        server = self.start_echo(OTHER_PORT, "--backlog", "1")
        self.stop_process(server)
        with self.attack(attacks.open_at_a_stopped_server):
            with self.honest_socket() as connection:
                self.exchange(connection, b"opened beside it" * 100)
            self.until(lambda: self.opened() > 0, lambda: "no handshake is completed")
            self.assertLessEqual(self.opened(), 2, "with a backlog of 1, and one more as in Linux")

    def opened(self):
        """Connections that the stopped server has not taken."""
        return sum(state == "ESTABLISHED" and local.endswith(f":{OTHER_PORT}")
                   for state, local, _ in self.own_sessions())

    def test_split_sack_blocks(self):
        self.send_to(attacks.split_sack_blocks)

    def test_denied_losses(self):
        self.send_to(attacks.deny_losses, has_effect=lambda: self.undone_reductions() > 0)

    def undone_reductions(self):
        """Of the connection to the attacker."""
        return sum(row["undone_reductions"] for row in self.bed.daemon.look("sessions")["sessions"]
                   if row.get("remote") == f"{STRANGERS[0]}:{OTHER_PORT}")

    def send_to(self, action, **expected):
        """A client sends to the attacker, which resets the connection at the end."""
        text = os.path.join(self.bed.folder, "text")
        with open(text, "wb") as file:
            file.truncate(64 << 20)
        command, environment = self.bed.lyre_peer("connect", f"{STRANGERS[0]}:{OTHER_PORT}")
        with open(text, "rb") as file:
            sender = processes.start(command, env=environment, stdin=file,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(processes.end, sender)
        self.transfer_beside(action, **expected)
        self.assertIn(sender.wait(STEP_TIMEOUT_S), (PEER_RESET, PEER_TIMED_OUT))

    def test_segments_of_no_connection(self):
        """They got an RST each, so that other hosts could send through this one."""
        before = self.dropped(["tcp_reset_limited"])
        run = self.transfer_beside(attacks.ask_for_resets)
        limited = self.dropped(["tcp_reset_limited"]) - before
        print(f"{run.answered.value} RSTs for {run.asked.value} segments, {limited} withheld")
        self.assertGreater(limited, 0)
        self.assertLessEqual(run.answered.value + limited, run.asked.value)

    def test_garbage(self):
        self.transfer_beside(attacks.send_garbage, ["ip_too_short"], ["ip_bad_version"],
                             ["ip_bad_checksum"], ["arp_malformed"])

    def test_resets_and_icmp_errors(self):
        self.transfer_beside(attacks.break_an_honest_connection, ["tcp_out_of_window"],
                             ["icmp_bad_quote"], ["tcp_no_connection", "tcp_reset_limited"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, help="folder with the finished build")
    parser.add_argument("--seconds", type=float, default=Strangers.seconds, help="of each attack")
    parser.add_argument("tests", nargs="*", help="such as Strangers.test_garbage; default: all")
    options = parser.parse_args()
    bed.options.build, Strangers.seconds = options.build, options.seconds
    processes.exit_on_signals()
    try:
        with VethPair(bed.OFFLOADS):
            pass
    except NetworkError as error:
        print(f"SKIP: {error}")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *options.tests], verbosity=2)


if __name__ == "__main__":
    main()
