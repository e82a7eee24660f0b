#!/usr/bin/env python3
"""tools/install-dependencies and tools/make-root beside stand-ins for apt and mmdebstrap.

usage: setup_scripts_test.py SOURCE_ROOT
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BOUND_S = 60


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class Scripts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}")

    def path(self, name):
        return os.path.join(self.folder, name)

    def stand_in(self, name, body):
        """An executable that notes how it was called, and then does `body`."""
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\necho "{name} $*" >> {self.path("calls")}\n{body}\n')
        os.chmod(self.path(name), 0o755)

    def calls(self):
        with open(self.path("calls"), encoding="utf-8") as file:
            return file.read()

    def run_script(self, *command):
        return subprocess.run(["bash", *command], capture_output=True, text=True, timeout=BOUND_S,
                              check=False, env=self.environment)


@unittest.skipUnless(shutil.which("dpkg"), "no dpkg on this machine")
class InstallDependencies(Scripts):
    def install(self, dpdk, meson):
        """On a machine that has no package, and whose apt has these versions of two."""
        self.stand_in("dpkg-query", "exit 1")
        self.stand_in("sudo", 'exec "$@"')
        self.stand_in("apt-get", "")
        self.stand_in("apt-cache", f"""
case "$*" in
  "policy libdpdk-dev") echo "  Installed: (none)"; echo "  Candidate: {dpdk}" ;;
  "policy meson") echo "  Installed: (none)"; echo "  Candidate: {meson}" ;;
  *) echo "Package: $*" ;;
esac""")
        return self.run_script(os.path.join(ROOT, "tools/install-dependencies"), "build")

    def test_a_release_that_is_new_enough(self):
        for dpdk, meson in (("22.11.11-1~deb12u1", "1.0.1-5"),
                            ("23.11.7-0ubuntu0.24.04.1", "1.3.2-1ubuntu1")):
            done = self.install(dpdk, meson)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(self.calls(), r"apt-get .*install .* libdpdk-dev ")

    def test_an_older_one_is_refused_before_anything_is_installed(self):
        done = self.install("21.11-1build1", "0.61.2-1")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("meson 0.61.2-1 (needed: 1.0), libdpdk-dev 21.11-1build1 (needed: 22.11): ",
                      done.stderr)
        self.assertNotRegex(self.calls(), "apt-get .*install")

    def test_only_what_is_too_old_is_named(self):
        done = self.install("21.11-1build1", "1.0.1-5")
        self.assertEqual(done.returncode, 1)
        self.assertIn("has libdpdk-dev 21.11-1build1 (needed: 22.11): ", done.stderr)

    def test_what_apt_does_not_know_is_left_to_apt(self):
        self.assertEqual(self.install("(none)", "(none)").returncode, 0)

    def test_the_versions_are_those_of_the_build(self):
        build = text_of("meson.build")
        oldest = dict(re.findall(r"\[([a-z-]+)\]=([0-9.]+)",
                                 text_of("tools/install-dependencies")))
        self.assertEqual(oldest, {
            "libdpdk-dev": re.search(r"'libdpdk', version : '>=([0-9.]+)'", build)[1],
            "meson": re.search(r"meson_version : '>=([0-9.]+)'", build)[1]})


class MakeRoot(Scripts):
    def make(self, suite, keyrings):
        """With the keyrings of these vendors, and the releases of Ubuntu that the file has."""
        with open(self.path("ubuntu.csv"), "w", encoding="utf-8") as file:
            file.write("version,codename,series,created,release,eol\n"
                       "24.04 LTS,Noble Numbat,noble,2023-10-26,2024-04-25,2029-05-31\n")
        for vendor in keyrings:
            with open(self.path(f"{vendor}-archive-keyring.gpg"), "w", encoding="utf-8"):
                pass
        script = text_of("tools/make-root")
        for there in ("/usr/share/keyrings", "/usr/share/distro-info"):
            self.assertIn(there + "/", script)
            script = script.replace(there + "/", self.folder + "/")
        with open(self.path("make-root"), "w", encoding="utf-8") as file:
            file.write(script)
        self.stand_in("mmdebstrap", "")
        self.stand_in("apt-config", "")
        return self.run_script(self.path("make-root"), suite, self.path("root"))

    def test_most_of_ubuntu_is_in_universe(self):
        done = self.make("noble", ["ubuntu"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("mmdebstrap --variant=apt --components=main,universe noble ", self.calls())

    def test_debian_has_no_universe(self):
        done = self.make("trixie", ["debian"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("mmdebstrap --variant=apt trixie ", self.calls())

    def test_a_missing_keyring_is_named_with_its_package(self):
        for suite, there, missing, package in (
                ("noble", "debian", "ubuntu-archive-keyring.gpg", "ubuntu-keyring"),
                ("trixie", "ubuntu", "debian-archive-keyring.gpg", "debian-archive-keyring")):
            with self.subTest(suite):
                for name in os.listdir(self.folder):
                    os.unlink(self.path(name))
                done = self.make(suite, [there])
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, rf"^make-root: \S*/{missing} is missing: .*{package}")
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertFalse(os.path.exists(self.path("calls")), "mmdebstrap was called")


if __name__ == "__main__":
    ROOT = os.path.abspath(sys.argv.pop())
    unittest.main(verbosity=2)
