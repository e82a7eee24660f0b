#!/usr/bin/env python3
"""`lyre doctor --pid` of a process in a container: mount and process namespaces of its own, and a
root that has the plugin, and the daemon's socket or not. Needs root.

usage: doctor_test.py BUILD
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from daemon import Programs
from two_hosts import TwoHosts

BOUND_S = 60
EXIT_SKIPPED = 77
# The root has the host's programs, files of its own, and what a job's container is given.
ENTER = """set -e
root=$1 sockets=$2; shift 2
mount -t tmpfs tmpfs "$root"
for name in bin lib lib64 usr; do
  if [ -L "/$name" ]; then ln -s "$(readlink "/$name")" "$root/$name"
  else mkdir "$root/$name"; mount --bind -o ro "/$name" "$root/$name"; fi
done
mkdir -p "$root/opt/lyre" "$root/etc" "$root/proc" "$root/run/lyre"
mount -t proc proc "$root/proc"
cp "$PLUGIN" "$root/opt/lyre/"
[ -z "$sockets" ] || mount --bind "$sockets" "$root/run/lyre"
case $JAIL in
  chroot) exec chroot "$root" env -i "$@" sleep 600 ;;
  pivot_root)
    mkdir "$root/old"
    cd "$root"
    pivot_root . old
    umount -l /old
    exec env -i "$@" sleep 600 ;;
esac
"""


def child_of(process):
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
        return next(iter(file.read().split()), None)


def sleeps(pid):
    """It has begun, and has loaded its libraries."""
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as comm, \
                open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            return comm.read().strip() == "sleep" and "/libc.so.6" in maps.read()
    except OSError:
        return False


class Container:
    """A process that sleeps with this environment, while the `with` block runs. `sockets`: the
    folder that it has at /run/lyre; empty: none."""

    def __init__(self, sockets, *environment, jail="pivot_root"):
        self._jail = jail
        self._sockets = sockets
        self._environment = environment

    def __enter__(self):
        self._root = tempfile.mkdtemp(prefix="lyre-")
        self._process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh",
             self._root, self._sockets, *self._environment],
            env={**os.environ, "PLUGIN": PLUGIN, "JAIL": self._jail})
        deadline = time.monotonic() + BOUND_S
        while not sleeps(child_of(self._process)):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise AssertionError("the container did not start")
            time.sleep(0.02)
        self.pid = child_of(self._process)
        return self

    def __exit__(self, *_error):
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._root, ignore_errors=True)


class DoctorOfAContainer(unittest.TestCase):
    SETTINGS = ("NCCL_NET_PLUGIN=lyre", "NCCL_NET=Lyre", "LD_LIBRARY_PATH=/opt/lyre",
                "LYRE_SOCKET=/run/lyre/host-a.sock")

    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(TwoHosts(Programs(BUILD)))
        cls.sockets = os.path.dirname(cls.hosts.a.socket)

    def findings(self, container, status):
        command, environment = self.hosts.a.lyre("doctor", "--pid", container.pid, "--json")
        # The environment of the doctor is not the job's.
        environment = {**environment, "NCCL_NET_PLUGIN": "none", "LYRE_SOCKET": "/nonexistent"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return {check["check"]: check for check in json.loads(done.stdout)["checks"]}

    def test_a_container_that_has_all(self):
        for jail in ("pivot_root", "chroot"):
            with Container(self.sockets, *self.SETTINGS, jail=jail) as container:
                found = self.findings(container, 0)
            self.assertIn(f"{container.pid} (sleep)", found["job"]["saw"])
            self.assertIn("/opt/lyre/libnccl-net-lyre.so", found["nccl plugin"]["saw"])
            self.assertIn("NCCL_NET_PLUGIN_REF_COUNT is not set", found["nccl reload"]["saw"])
            self.assertIn("answers", found["job socket"]["saw"])
            self.assertRegex(found["glibc"]["saw"], r"^2\.\d+$")

    def test_a_container_without_the_sockets_directory(self):
        with Container("", *self.SETTINGS) as container:
            socket = self.findings(container, 1)["job socket"]
        self.assertIn("is missing", socket["saw"])
        self.assertIn("-v /run/lyre:/run/lyre", socket["mend"])

    def test_a_container_whose_loader_does_not_find_the_plugin(self):
        with Container(self.sockets, *self.SETTINGS[:2], self.SETTINGS[3]) as container:
            found = self.findings(container, 1)
        self.assertIn("there is no libnccl-net-lyre.so in its file system",
                      found["nccl plugin"]["saw"])

    def test_a_misspelt_setting_of_the_job(self):
        with Container(self.sockets, *self.SETTINGS, "LYRE_STREAM=4") as container:
            found = self.findings(container, 1)
        self.assertIn("LYRE_STREAM", found["settings"]["saw"])


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    PLUGIN = os.path.join(os.path.abspath(BUILD), "nccl_adapter", "libnccl-net-lyre.so")
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs",
                       "/mnt"], capture_output=True, check=False).returncode != 0:
        print("skipped: needs root and namespaces")
        sys.exit(EXIT_SKIPPED)
    unittest.main(verbosity=2)
