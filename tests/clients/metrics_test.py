#!/usr/bin/env python3
"""`lyre metrics` with a daemon, and the alert rules and the dashboard that use what it serves.

usage: metrics_test.py BUILD
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import processes
from daemon import Programs
from two_hosts import TwoHosts

BOUND_S = 60
NO_DAEMON = 3
RULES = os.path.join(ROOT, "deploy", "prometheus", "lyre.rules.yml")
DASHBOARD = os.path.join(ROOT, "deploy", "grafana", "lyre.json")
# Of NCCL's connections: no job runs here. Nor does a driver here count anything.
NOT_HERE = ("lyre_comms_", "lyre_port_driver_events_total")

# Root may open every socket.
WITHOUT_OVERRIDE = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []

needs_promtool = unittest.skipUnless(shutil.which("promtool"),
                                     "no promtool on this machine: package prometheus")


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def metrics_in(text):
    """The names of Lyre's metrics in expressions."""
    return {name for name in re.findall(r"\blyre_[a-z_]+", text) if not name.startswith(NOT_HERE)}


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(TwoHosts(Programs(BUILD)))
        # A client that stays.
        command, environment = cls.hosts.a.lyre("perf", "server")
        server = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        cls.addClassCleanup(server.stderr.close)
        cls.addClassCleanup(server.wait)
        cls.addClassCleanup(server.kill)
        processes.read_line(server, BOUND_S)  # it listens

    def once(self):
        command, environment = self.hosts.a.lyre("metrics", "--once")
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=BOUND_S, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def serve(self, host, inside=()):
        address = free_address()
        command, environment = host.lyre("metrics", "--listen", address)
        server = subprocess.Popen([*inside, *command], env=environment, stderr=subprocess.PIPE,
                                  text=True)
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.assertIn(address, processes.read_line(server, BOUND_S))
        return server, f"http://{address}/metrics"

    @staticmethod
    def scrape(url):
        with urllib.request.urlopen(url, timeout=BOUND_S) as answer:
            return answer.read().decode()

    def test_a_scrape_reads_the_daemon(self):
        server, url = self.serve(self.hosts.a)
        text = self.scrape(url)
        self.assertRegex(text, r"(?m)^lyre_up 1$")
        self.assertRegex(text, r'(?m)^lyre_port_up\{port="wire"\} 1$')
        self.assertRegex(text, r"(?m)^lyre_worker_dropped_packets_total\{.*reason=\"tcp_paws\"\} ")
        server.terminate()
        self.assertEqual(server.wait(BOUND_S), 0)

    def test_counters_grow(self):
        def received():
            return float(re.search(
                r'(?m)^lyre_worker_tcp_payload_in_bytes_total\{worker="0"\} (.*)$', self.once())[1])
        before = received()
        command, environment = self.hosts.b.lyre("perf", "client", "10.9.0.1:5201", "--bytes",
                                                 "1MiB")
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, timeout=BOUND_S,
                       check=True)
        self.assertGreaterEqual(received(), before + (1 << 20))

    def test_a_missing_daemon_is_a_value(self):
        with TwoHosts(Programs(BUILD)) as hosts:
            server, url = self.serve(hosts.b)
            hosts.b.stop()
            self.assertRegex(self.scrape(url), r"(?m)^lyre_up 0$")
            command, environment = hosts.b.lyre("metrics", "--once")
            self.assertEqual(subprocess.run(command, env=environment, stderr=subprocess.DEVNULL,
                                            timeout=BOUND_S, check=False).returncode, NO_DAEMON)

    # Every reason looked like a daemon that is down, and no line named it.
    def test_the_reason_for_which_a_daemon_cannot_be_read_is_told_once(self):
        path = self.hosts.a.socket
        mode = os.stat(path).st_mode & 0o777
        self.addCleanup(os.chmod, path, mode)
        server, url = self.serve(self.hosts.a, WITHOUT_OVERRIDE)
        os.chmod(path, 0)
        for _ in range(3):
            self.assertRegex(self.scrape(url), r"(?m)^lyre_up 0$")
        os.chmod(path, mode)
        for _ in range(2):
            self.assertRegex(self.scrape(url), r"(?m)^lyre_up 1$")
        server.terminate()
        self.assertEqual(server.wait(BOUND_S), 0)
        lines = server.stderr.read().splitlines()
        self.assertEqual(len(lines), 2, lines)
        self.assertIn("Permission denied", lines[0])
        self.assertIn("answers again", lines[1])

    # It showed 0.
    def test_a_domain_counts_its_own_clients(self):
        with TwoHosts(Programs(BUILD), sections={"domains": ["blue", "green"]}) as hosts:
            self.attach_and_leave(hosts.a, "blue")
            self.await_attached(hosts.a, "blue", 1)
            self.await_attached(hosts.a, "green", 0)

    # It showed no ports, so that none was down.
    def test_a_domain_shows_its_ports_and_that_it_is_one(self):
        self.assertRegex(self.once(), r"(?m)^lyre_scope_is_domain 0$")
        with TwoHosts(Programs(BUILD), sections={"domains": ["blue", "green"]}) as hosts:
            command, environment = hosts.a.lyre("metrics", "--once")
            text = subprocess.run(command, env={**environment, **hosts.a.in_domain("blue")},
                                  capture_output=True, text=True, timeout=BOUND_S,
                                  check=True).stdout
        self.assertRegex(text, r"(?m)^lyre_scope_is_domain 1$")
        self.assertRegex(text, r'(?m)^lyre_port_up\{port="wire"\} [01]$')
        self.assertNotIn("lyre_worker_", text)

    # The dashboard showed 0 where no port was seen at all.
    def test_the_dashboard_counts_ports_that_it_sees(self):
        with open(DASHBOARD, encoding="utf-8") as file:
            panels = {panel["title"]: panel for panel in json.load(file)["panels"]}
        self.assertNotIn("lyre_up", panels["Ports down"]["targets"][0]["expr"])

    @staticmethod
    def attach_and_leave(host, domain):
        command, environment = host.lyre("perf", "server")
        server = subprocess.Popen(command, env={**environment, **host.in_domain(domain)},
                                  stderr=subprocess.PIPE, text=True)
        with server:
            processes.read_line(server, BOUND_S)  # it listens
            server.kill()

    def await_attached(self, host, domain, count):
        command, environment = host.lyre("metrics", "--once")
        deadline = time.monotonic() + BOUND_S
        while True:
            text = subprocess.run(command, env={**environment, **host.in_domain(domain)},
                                  capture_output=True, text=True, timeout=BOUND_S,
                                  check=True).stdout
            if re.search(rf"(?m)^lyre_clients_attached_total {count}$", text):
                return
            self.assertLess(time.monotonic(), deadline, text)
            time.sleep(0.05)

    def connect_idle(self, family, address, count):
        for _ in range(count):
            idle = socket.socket(family)
            self.addCleanup(idle.close)
            idle.settimeout(BOUND_S)
            idle.connect(address)

    def test_idle_connections_do_not_stop_a_scrape(self):
        _, url = self.serve(self.hosts.a)
        host, port = url.split("/")[2].split(":")
        self.connect_idle(socket.AF_INET, (host, int(port)), 40)
        self.assertRegex(self.scrape(url), r"(?m)^lyre_up 1$")

    def test_idle_connections_do_not_stop_a_scrape_at_a_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "metrics.sock")
            self.serve_at_path(path)
            idle = socket.socket(socket.AF_UNIX)
            self.addCleanup(idle.close)
            idle.settimeout(BOUND_S)
            idle.connect(path)
            self.connect_idle(socket.AF_UNIX, path, 40)
            self.assertRegex(self.scrape_at_path(path), r"(?m)^lyre_up 1$")
            self.assertEqual(idle.recv(1), b"", "the oldest was hung up on")

    def test_a_server_without_descriptors_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "metrics.sock")
            server, _ = self.serve_at_path(path, files_max=24)
            self.connect_idle(socket.AF_UNIX, path, 40)
            text = self.scrape_at_path(path)
            self.assertTrue(text.startswith("HTTP/1.1 200 "), text[:80])
            self.assertRegex(text, r"(?m)^lyre_up 1$")
            self.assertIsNone(server.poll())

    def serve_at_path(self, path, files_max=None):
        command, environment = self.hosts.a.lyre("metrics", "--listen", path)
        if files_max is not None:
            command = ["prlimit", f"--nofile={files_max}"] + list(command)
        server = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        return server, processes.read_line(server, BOUND_S)

    @staticmethod
    def scrape_at_path(path, target="/metrics"):
        with socket.socket(socket.AF_UNIX) as scraper:
            scraper.settimeout(BOUND_S)
            scraper.connect(path)
            scraper.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                            .encode())
            return b"".join(iter(lambda: scraper.recv(1 << 16), b"")).decode()

    def test_a_unix_socket_is_scraped_too(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "metrics.sock")
            server, said = self.serve_at_path(path)
            self.assertIn(path, said)
            text = self.scrape_at_path(path)
            self.assertTrue(text.startswith("HTTP/1.1 200 "), text[:80])
            self.assertRegex(text, r"(?m)^lyre_up 1$")
            self.assertTrue(self.scrape_at_path(path, "/").startswith("HTTP/1.1 404 "))
            other, said = self.serve_at_path(path)
            self.assertEqual(other.wait(BOUND_S), 1)
            self.assertIn("cannot listen", said)
            server.kill()  # its socket stays, and is no hindrance
            server.wait(BOUND_S)
            server, _ = self.serve_at_path(path)
            self.assertRegex(self.scrape_at_path(path), r"(?m)^lyre_up 1$")
            server.terminate()
            self.assertEqual(server.wait(BOUND_S), 0)
            self.assertFalse(os.path.exists(path))

    def test_a_file_that_is_no_socket_stays(self):
        with tempfile.NamedTemporaryFile() as file:
            server, said = self.serve_at_path(file.name)
            self.assertEqual(server.wait(BOUND_S), 1)
            self.assertIn("cannot listen", said)
            self.assertTrue(os.path.exists(file.name))

    def test_a_used_address_is_a_failure_of_one_line(self):
        _, url = self.serve(self.hosts.a)
        command, environment = self.hosts.a.lyre("metrics", "--listen", url.split("/")[2])
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("Address already in use", done.stderr)

    def test_an_address_that_is_none_is_wrong_use(self):
        for address in ("here", "127.0.0.1", "127.0.0.1:99999", ":9417", "localhost:9417"):
            command, environment = self.hosts.a.lyre("metrics", "--listen", address)
            done = subprocess.run(command, env=environment, capture_output=True, text=True,
                                  timeout=BOUND_S, check=False)
            self.assertEqual(done.returncode, 2, (address, done.stderr))
            self.assertIn("is neither ADDR:PORT", done.stderr)

    @needs_promtool
    def test_promtool_finds_nothing_wrong_with_the_metrics(self):
        done = subprocess.run(["promtool", "check", "metrics"], input=self.once(), text=True,
                              capture_output=True, timeout=BOUND_S, check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_rules_and_dashboard_use_what_is_served(self):
        served = metrics_in(self.once())
        with open(RULES, encoding="utf-8") as rules:
            self.assertLessEqual(metrics_in(rules.read()), served)
        with open(DASHBOARD, encoding="utf-8") as file:
            dashboard = json.load(file)
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                self.assertLessEqual(metrics_in(target["expr"]), served, panel["title"])


class Rules(unittest.TestCase):
    @needs_promtool
    def test_promtool_takes_the_rules(self):
        done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True,
                              timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @needs_promtool
    def test_each_alert_fires_on_what_it_is_for(self):
        done = subprocess.run(["promtool", "test", "rules",
                               os.path.join(HERE, "prometheus_rules.yml")],
                              capture_output=True, text=True, timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main(verbosity=2)
