#!/usr/bin/env python3
"""The files for enroot, which give a container what CDI gives it, and the Quadlet of the daemon,
which is the service in a container. And what the page for installation says of them.

usage: engines_test.py SOURCE_ROOT CDI_FILE ENROOT_MOUNTS
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

QUADLET = "/usr/libexec/podman/quadlet"
BOUND_S = 60
# Options of enroot beside those of mount.
OF_ENROOT = {"nofail", "x-create=dir", "x-create=file"}
# With these lyred-container changes user and the owner of /run/lyre.
OF_THE_ENTRY = {"CHOWN", "SETGID", "SETPCAP", "SETUID"}


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def lines_of(text):
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def settings_of(text):
    """{section: {key: [value, ...]}} of a unit: a key may come again."""
    sections, keys = {}, None
    for line in lines_of(text):
        if line.startswith("["):
            keys = sections.setdefault(line.strip("[]"), {})
        else:
            key, value = line.split("=", 1)
            keys.setdefault(key, []).append(value)
    return sections


def chapter(page, title):
    return re.search(rf"^## {title}$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)[1]


class Enroot(unittest.TestCase):
    def setUp(self):
        with open(CDI_FILE, encoding="utf-8") as file:
            self.cdi = json.load(file)["devices"][0]["containerEdits"]
        with open(ENROOT_MOUNTS, encoding="utf-8") as file:
            self.mounts = [line.split() for line in lines_of(file.read())]

    def test_mounts_are_those_of_cdi(self):
        self.assertEqual({len(fields) for fields in self.mounts}, {4})
        self.assertEqual({kind for _, _, kind, _ in self.mounts}, {"none"})
        mine = {(source, target): set(options.split(",")) - OF_ENROOT
                for source, target, _, options in self.mounts}
        wanted = {(one["hostPath"], one["containerPath"]): set(one["options"])
                  for one in self.cdi["mounts"]}
        self.assertEqual(mine, wanted)

    # What is missing on a node keeps no container from starting: NCCL_NET=Lyre ends those that need
    # it.
    def test_a_target_is_made_as_what_its_source_is(self):
        for source, _, _, options in self.mounts:
            kind = "x-create=file" if source.endswith(".so") else "x-create=dir"
            self.assertEqual({kind, "nofail"}, set(options.split(",")) & OF_ENROOT, source)

    # enroot replaces ${NAME} by what the host has, and leaves out lines that set nothing.
    def test_variables_are_those_of_cdi(self):
        lines = lines_of(read("deploy/enroot/lyre.env"))
        self.assertEqual(lines, self.cdi["env"])
        self.assertNotIn("$", "".join(lines))


class Quadlet(unittest.TestCase):
    def setUp(self):
        self.unit = settings_of(read("deploy/container/lyred.container"))
        self.service = settings_of(read("config/lyred.service.in"))

    def test_it_ends_and_starts_again_as_the_service(self):
        for key in ("Restart", "RestartPreventExitStatus", "TimeoutStartSec", "TimeoutStopSec"):
            self.assertEqual(self.unit["Service"][key], self.service["Service"][key], key)
        self.assertEqual(self.unit["Unit"]["StartLimitIntervalSec"],
                         self.service["Unit"]["StartLimitIntervalSec"])
        self.assertGreaterEqual(int(self.unit["Service"]["RestartSec"][0]), 1)
        self.assertEqual(self.unit["Install"], self.service["Install"])

    def test_it_has_the_capabilities_of_the_service(self):
        container = self.unit["Container"]
        given = {name for names in container["AddCapability"] for name in names.split()}
        service = self.service["Service"]["AmbientCapabilities"][0].split()
        self.assertEqual(given, OF_THE_ENTRY | {one.removeprefix("CAP_") for one in service})
        self.assertEqual(container["DropCapability"], ["all"])

    def test_its_image_is_the_one_that_is_built(self):
        version = re.search(r"version : '(.*)'", read("meson.build"))[1]
        self.assertEqual(self.unit["Container"]["Image"], [f"localhost/lyre:{version}"])

    @unittest.skipUnless(os.path.exists(QUADLET), "no podman with Quadlet on this machine")
    def test_podman_makes_a_service_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "lyred.container"), "w", encoding="utf-8") as file:
                file.write(read("deploy/container/lyred.container"))
            done = subprocess.run([QUADLET, "-dryrun"], capture_output=True, text=True,
                                  timeout=BOUND_S, check=False,
                                  env={**os.environ, "QUADLET_UNIT_DIRS": folder})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("---lyred.service---", done.stdout)
        self.assertIn("--pid=host", done.stdout)


class Page(unittest.TestCase):
    def setUp(self):
        self.page = read("docs/user/install.md")

    # A TaskProlog runs in the container of pyxis, where it is not, and Slurm ends the task.
    def test_slurm_with_pyxis_has_a_way_of_its_own(self):
        slurm = chapter(self.page, "Slurm")
        for word in ("pyxis", "/etc/nccl.conf", "/etc/enroot/mounts.d", "/etc/enroot/environ.d",
                     "/usr/share/lyre/enroot/lyre.fstab", "/usr/share/lyre/enroot/lyre.env"):
            self.assertIn(word, slurm)
        self.assertNotRegex(slurm, r"(?m)^TaskProlog=")
        self.assertIn("pyxis", read("deploy/slurm/task_prolog"))

    def test_the_daemon_in_a_container_is_a_service(self):
        containers = chapter(self.page, "Containers")
        self.assertIn("/usr/share/lyre/container/lyred.container", containers)
        self.assertNotRegex(containers, r"podman run [^`\n]*--restart")

    def test_engines_with_user_namespaces_are_told_what_clients_need(self):
        containers = chapter(self.page, "Containers")
        for word in ("--group-add keep-groups", "crun", "userns-remap", "--userns=host"):
            self.assertIn(word, containers)


if __name__ == "__main__":
    ENROOT_MOUNTS = sys.argv.pop()
    CDI_FILE = sys.argv.pop()
    ROOT = os.path.abspath(sys.argv.pop())
    unittest.main(verbosity=2)
