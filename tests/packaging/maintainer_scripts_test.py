#!/usr/bin/env python3
"""What the package `lyre` does when it is removed and purged while `lyre nic bind` holds NICs. The
scripts run in a folder of their own, by DPKG_ROOT.

usage: maintainer_scripts_test.py SOURCE_ROOT
"""

import os
import subprocess
import sys
import tempfile
import unittest

BOUND_S = 60
UNITS = "etc/systemd/system"
SHIPPED = "/usr/share/lyre/lyred.service.d"
UUID = "f8615163-0000-1000-2000-6045bd7a8d7c"


class Removal(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.join(folder.name, "root")
        self.programs = os.path.join(folder.name, "programs")
        os.mkdir(self.programs)
        # None of this machine's services is touched.
        for name in ("systemctl", "deb-systemd-invoke"):
            path = os.path.join(self.programs, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\necho \"$0 was called\"\n")
            os.chmod(path, 0o755)

    def write(self, path, text=""):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def link(self, path, target):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)

    def bind(self, device, driver):
        self.write(f"etc/driverctl.d/{device}", f"{driver}\n")
        self.write(f"{UNITS}/driverctl@{device}.service.d/lyre.conf", "[Service]\n")

    def run_script(self, name, action):
        script = os.path.join(SOURCE_ROOT, "debian", name)
        with open(script, encoding="utf-8") as file:
            self.assertIn("DPKG_ROOT", file.read(), "it would change this machine")
        path = self.programs + os.pathsep + os.environ["PATH"]
        done = subprocess.run(["sh", script, action], capture_output=True, text=True,
                              env={"PATH": path, "DPKG_ROOT": self.root}, timeout=BOUND_S,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        return done.stderr

    def there(self):
        """Files and links; a folder that is empty counts, too."""
        found = set()
        for folder, folders, files in os.walk(self.root):
            if not folders and not files:
                found.add(os.path.relpath(folder, self.root))
            found |= {os.path.relpath(os.path.join(folder, name), self.root) for name in files}
        return found

    def test_a_removal_names_each_nic_that_is_bound(self):
        self.assertEqual(self.run_script("lyre.prerm", "remove"), "")
        self.bind("pci-0000:00:06.0", "vfio-pci")
        self.bind(f"vmbus-{UUID}", "uio_hv_generic")
        self.write("etc/driverctl.d/pci-0000:00:07.0", "vfio-pci\n")  # by an administrator
        self.bind("pci-0000:00:08.0", "vfio-pci")
        os.remove(os.path.join(self.root, "etc/driverctl.d/pci-0000:00:08.0"))
        self.assertEqual(
            self.run_script("lyre.prerm", "remove"),
            "lyre: 0000:00:06.0 stays bound to vfio-pci: lyre nic unbind 0000:00:06.0 first, or "
            "now driverctl unset-override 0000:00:06.0\n"
            f"lyre: vmbus:{UUID} stays bound to uio_hv_generic: lyre nic unbind vmbus:{UUID} "
            f"first, or now driverctl -b vmbus unset-override {UUID}\n")
        self.assertEqual(self.run_script("lyre.prerm", "upgrade"), "")

    def test_a_purge_takes_back_what_bind_made(self):
        kept = ["etc/driverctl.d/other", "etc/sysctl.d/other.conf", "etc/tmpfiles.d/other.conf",
                f"{UNITS}/multi-user.target.wants/other.service"]
        for path in kept:
            self.write(path)
        self.bind("pci-0000:00:06.0", "vfio-pci")
        self.bind(f"vmbus-{UUID}", "uio_hv_generic")
        self.write("etc/sysctl.d/60-lyre-nic.conf")
        self.write("etc/tmpfiles.d/lyre-nic.conf")
        for unit in ("lyred", "lyred@", "lyred@team-a"):
            for name in ("no-iommu.conf", "beside-kernel-driver.conf"):
                self.link(f"{UNITS}/{unit}.service.d/{name}", f"{SHIPPED}/{name}")
        self.link(f"{UNITS}/multi-user.target.wants/lyred@team-a.service",
                  "/lib/systemd/system/lyred@.service")
        before = self.there()
        self.run_script("lyre.postrm", "remove")
        self.assertEqual(self.there(), before)
        self.run_script("lyre.postrm", "purge")
        self.assertEqual(self.there(), set(kept))
        self.run_script("lyre.postrm", "purge")

    def test_a_purge_leaves_what_an_administrator_made(self):
        self.write(f"{UNITS}/lyred.service.d/override.conf")
        self.link(f"{UNITS}/lyred.service.d/own.conf", "/etc/lyre/own.conf")
        self.write("etc/driverctl.d/pci-0000:00:07.0", "vfio-pci\n")
        self.write(f"{UNITS}/driverctl@pci-0000:00:07.0.service.d/own.conf")
        self.write("etc/sysctl.d/60-lyre.conf")
        before = self.there()
        self.link(f"{UNITS}/lyred.service.d/no-iommu.conf", f"{SHIPPED}/no-iommu.conf")
        self.run_script("lyre.postrm", "purge")
        self.assertEqual(self.there(), before)


if __name__ == "__main__":
    SOURCE_ROOT = os.path.abspath(sys.argv.pop())
    unittest.main(verbosity=2)
