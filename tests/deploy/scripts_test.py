#!/usr/bin/env python3
"""node_taint beside a stand-in for the API server, and Slurm's scripts beside stand-ins for `lyre`,
`systemctl` and `scontrol`.

usage: scripts_test.py SOURCE_ROOT
"""

import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BOUND_S = 60
KEY = "lyre.example/not-ready"
NOT_READY = {"key": KEY, "value": "true", "effect": "NoSchedule"}
OTHER = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}


class Node:
    """A node as an API server keeps it: a change that names another version is refused."""

    def __init__(self, taints):
        self.lock = threading.Lock()
        self.version = 1
        self.taints = taints
        self.refuse_next = False
        self.refused = 0
        self.tokens = set()

    def document(self):
        spec = {"taints": self.taints} if self.taints else {}
        return {"metadata": {"name": "n1", "resourceVersion": str(self.version)}, "spec": spec}

    def patch(self, change):
        if self.refuse_next:
            self.refuse_next = False
            self.version += 1
        if change["metadata"]["resourceVersion"] != str(self.version):
            self.refused += 1
            return 409
        self.taints = change["spec"]["taints"]
        self.version += 1
        return 200


def handler(node):
    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self, code, document=None):
            body = json.dumps(document or {}).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            with node.lock:
                node.tokens.add(self.headers["Authorization"])
                is_ours = self.path == "/api/v1/nodes/n1"
                self.answer(200 if is_ours else 404, node.document())

        def do_PATCH(self):
            length = int(self.headers["Content-Length"])
            is_merge = self.headers["Content-Type"] == "application/merge-patch+json"
            change = json.loads(self.rfile.read(length))
            with node.lock:
                self.answer(node.patch(change) if is_merge else 415)

        def log_message(self, *_):
            pass

    return Handler


class Scripts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}")
        # Whether the daemon answers is whether the file "up" is there.
        self.stand_in("lyre", f'echo "lyre $*" >> {self.folder}/calls; test -e {self.folder}/up')

    def stand_in(self, name, body):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{body}\n")
        os.chmod(path, 0o755)

    def set_up(self, is_up):
        path = os.path.join(self.folder, "up")
        if is_up:
            open(path, "w", encoding="utf-8").close()
        elif os.path.exists(path):
            os.unlink(path)

    def calls(self):
        try:
            with open(os.path.join(self.folder, "calls"), encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def run_script(self, name, **more):
        return subprocess.run([os.path.join(ROOT, "deploy", name)], capture_output=True, text=True,
                              timeout=BOUND_S, check=False, env={**self.environment, **more})


@unittest.skipUnless(shutil.which("jq") and shutil.which("curl"), "no jq or no curl")
class NodeTaint(Scripts):
    def start(self, taints):
        self.node = Node(taints)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(self.node))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        for name in ("token", "ca.crt"):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write("secret")
        self.process = subprocess.Popen(
            [os.path.join(ROOT, "deploy/kubernetes/node_taint")], stderr=subprocess.DEVNULL,
            env={**self.environment, "NODE_NAME": "n1", "LYRE_SERVICE_ACCOUNT": self.folder,
                 "LYRE_API_SERVER": f"http://127.0.0.1:{server.server_port}",
                 "LYRE_TAINT_INTERVAL_SECONDS": "0.1"})
        self.addCleanup(self.stop)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(BOUND_S)

    def wait_for(self, taints):
        deadline = time.monotonic() + BOUND_S
        while time.monotonic() < deadline:
            with self.node.lock:
                if self.node.taints == taints:
                    return
            time.sleep(0.05)
        self.fail(f"the node's taints stay {self.node.taints}")

    def test_the_taint_goes_while_the_daemon_answers(self):
        self.set_up(True)
        self.start([OTHER, NOT_READY])
        self.wait_for([OTHER])
        self.set_up(False)
        self.wait_for([OTHER, NOT_READY])
        self.set_up(True)
        self.wait_for([OTHER])
        self.assertEqual(self.node.tokens, {"Bearer secret"})

    def test_a_pod_that_ends_leaves_the_taint(self):
        self.set_up(True)
        self.start([NOT_READY])
        self.wait_for([])
        self.assertEqual(self.stop(), 0)
        self.assertEqual(self.node.taints, [NOT_READY])

    def test_a_change_beside_it_is_not_overwritten(self):
        self.start([OTHER])
        self.wait_for([OTHER, NOT_READY])
        self.node.refuse_next = True
        self.set_up(True)
        self.wait_for([OTHER])
        self.assertEqual(self.node.refused, 1)


class Slurm(Scripts):
    def setUp(self):
        super().setUp()
        for name in ("systemctl", "scontrol"):
            self.stand_in(name, f'echo "{name} $*" >> {self.folder}/calls')

    def prolog(self):
        # The script names its own path, so that a job's environment does not choose programs.
        script = os.path.join(self.folder, "prolog")
        with open(os.path.join(ROOT, "deploy/slurm/prolog"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text.count("PATH=/usr/sbin:"), 1)
        with open(script, "w", encoding="utf-8") as file:
            file.write(text.replace("PATH=/usr/sbin:", f"PATH={self.folder}:/usr/sbin:"))
        os.chmod(script, 0o755)
        return subprocess.run([script], capture_output=True, text=True, timeout=BOUND_S,
                              check=False,
                              env={"SLURMD_NODENAME": "n1", "LYRE_PROLOG_SECONDS": "2"})

    def test_a_daemon_that_answers_is_left_alone(self):
        self.set_up(True)
        self.assertEqual(self.prolog().returncode, 0)
        self.assertEqual(self.calls(), ["lyre status"])

    # An upgrade of the package may leave it running, and it serves jobs.
    def test_a_daemon_of_another_release_answers(self):
        self.stand_in("lyre", f'echo "lyre $*" >> {self.folder}/calls; exit 4')
        self.assertEqual(self.prolog().returncode, 0)
        self.assertEqual(self.calls(), ["lyre status"])
        self.assertIn("export NCCL_NET=Lyre", self.run_script("slurm/task_prolog").stdout)

    def test_a_daemon_that_does_not_run_is_started(self):
        self.stand_in("systemctl", f'echo "systemctl $*" >> {self.folder}/calls; '
                                   f'touch {self.folder}/up')
        self.assertEqual(self.prolog().returncode, 0)
        self.assertEqual(self.calls(), ["lyre status", "systemctl start lyred.service",
                                        "lyre status"])

    def test_a_node_without_a_daemon_is_drained(self):
        self.stand_in("systemctl", "exit 1")
        done = self.prolog()
        self.assertEqual(done.returncode, 1)
        self.assertIn("scontrol update NodeName=n1 State=DRAIN Reason=lyre: lyred does not start",
                      "\n".join(self.calls()))

    def test_a_daemon_that_stays_silent_drains_the_node(self):
        done = self.prolog()
        self.assertEqual(done.returncode, 1)
        self.assertIn("State=DRAIN Reason=lyre: lyred does not answer", "\n".join(self.calls()))
        self.assertIn("lyre doctor", done.stderr)

    def test_tasks_get_the_exports(self):
        self.set_up(True)
        done = self.run_script("slurm/task_prolog")
        self.assertEqual((done.returncode, done.stdout),
                         (0, "export NCCL_NET_PLUGIN=lyre\nexport NCCL_NET_PLUGIN_REF_COUNT=1\n"
                             "export NCCL_NET=Lyre\n"))

    def test_a_job_chooses_its_network_itself(self):
        self.set_up(True)
        self.assertEqual(self.run_script("slurm/task_prolog", NCCL_NET="Socket").stdout, "")

    def test_a_user_who_cannot_reach_the_daemon_is_told(self):
        done = self.run_script("slurm/task_prolog")
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout.startswith("print lyre: "), done.stdout)


class Container(Scripts):
    def test_all_missing_capabilities_are_named_at_once(self):
        self.stand_in("setpriv", "echo 'Capability bounding set: chown,net_raw,ipc_lock'")
        script = os.path.join(self.folder, "lyred-container")
        with open(os.path.join(ROOT, "deploy/container/lyred-container"), encoding="utf-8") as file:
            text = file.read()
        for installed, source in (("/usr/lib/systemd/system/lyred.service",
                                   "config/lyred.service.in"),
                                  ("/usr/share/lyre/lyred.service.d", "config/drop-ins")):
            self.assertEqual(text.count(f"={installed}\n"), 1)
            text = text.replace(f"={installed}\n", f"={os.path.join(ROOT, source)}\n")
        with open(script, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run(["bash", script], capture_output=True, text=True, timeout=BOUND_S,
                              check=False, env={**self.environment, "LYRE_NIC": "kernel-interface"})
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr,
                         "lyred-container: the container does not have CAP_BPF "
                         "CAP_CHECKPOINT_RESTORE CAP_DAC_READ_SEARCH CAP_NET_ADMIN "
                         "CAP_SYS_PTRACE, which ports of the kind 'kernel-interface' need\n")


@unittest.skipUnless(shutil.which("shellcheck"), "no shellcheck on this machine")
class Shellcheck(unittest.TestCase):
    def test_the_scripts_are_clean(self):
        scripts = ["deploy/kubernetes/node_taint", "deploy/slurm/prolog",
                   "deploy/slurm/task_prolog", "deploy/container/build",
                   "deploy/container/lyred-container", "tools/package", "tools/make-root",
                   "tools/enter-root", "debian/lyre.postinst", "debian/lyre.prerm",
                   "debian/lyre.postrm"]
        # Single quotes around `$1` are meant: another shell expands it.
        done = subprocess.run(["shellcheck", "--exclude=SC2016", *scripts], cwd=ROOT,
                              capture_output=True, text=True, timeout=BOUND_S, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))


if __name__ == "__main__":
    ROOT = os.path.abspath(sys.argv.pop())
    unittest.main(verbosity=2)
