#!/usr/bin/env python3
"""What the package `lyre` does when it is removed and purged while `lyre nic bind` holds NICs, and
when it is upgraded while daemons run. The scripts run in a folder of their own.

usage: maintainer_scripts_test.py SOURCE_ROOT
"""

import os
import shutil
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


# The last argument of `lyred --check` is the file.
LYRED = """for file; do :; done
case $file in
  *refused.toml) echo "lyred: $file:7: tcp.old: unknown key" >&2; exit 2 ;;
esac
echo "$file: right"
"""
SYSTEMCTL = """case $1 in
  list-units) cat "$FOLDER/running" ;;
  show) for unit; do :; done; cat "$FOLDER/show-$unit" ;;
esac
"""
OLD_PROGRAM = "goes on with the old program: "
MAY_NOT_BE_READ = ("lyre: until it is replaced, lyre status and lyre metrics may not be able to "
                   "read it\n")


def exec_start(*words):
    """As systemd shows it."""
    return (f"{{ path={words[0]} ; argv[]={' '.join(words)} ; ignore_errors=no ; "
            "start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }\n")


class Upgrade(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.mkdir(self.path("systemd"))
        self.write("running")
        self.stand_in("lyred", LYRED)
        self.stand_in("systemctl", SYSTEMCTL)
        self.stand_in("deb-systemd-invoke", 'echo "$*" >> "$FOLDER/calls"')
        self.script = self.path("postinst")
        with open(os.path.join(SOURCE_ROOT, "debian/lyre.postinst"), encoding="utf-8") as file:
            text = file.read()
        # None of this machine's services is touched.
        for old, new in (("#DEBHELPER#", f"echo debhelper >> {self.path('calls')}"),
                         ("/run/systemd/system", self.path("systemd")),
                         ("/usr/bin/lyred --check", self.path("lyred") + " --check"),
                         ("-d /run/udev", f"-d {self.path('none')}"),
                         ("/etc/default/lyre 2>", f"{self.path('default')} 2>")):
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, new)
        self.write("postinst", text)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text=""):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def stand_in(self, name, body):
        self.write(name, f"#!/bin/sh\n{body}\n")
        os.chmod(self.path(name), 0o755)

    def add_daemon(self, unit, config):
        self.add_unit(unit, exec_start("/usr/bin/lyred", "--config", config))

    def add_unit(self, unit, shown):
        with open(self.path("running"), "a", encoding="utf-8") as file:
            file.write(f"{unit} loaded active running Lyre\n")
        self.write(f"show-{unit}", shown)

    def configure(self, *versions, **environment):
        """What `configure` of the package did, and what it said."""
        self.write("calls")
        path = self.folder + os.pathsep + os.environ["PATH"]
        done = subprocess.run(["sh", self.script, "configure", *versions], capture_output=True,
                              text=True, timeout=BOUND_S, check=False,
                              env={"PATH": path, "FOLDER": self.folder, **environment})
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        with open(self.path("calls"), encoding="utf-8") as file:
            return file.read().splitlines(), done.stderr

    def test_each_daemon_that_runs_is_restarted(self):
        self.add_daemon("lyred.service", "/etc/lyre/lyred.toml")
        self.add_daemon(r"lyred@team\x2da.service", "/etc/lyre/team-a.toml")
        calls = ["debhelper", "restart lyred.service", r"restart lyred@team\x2da.service"]
        self.assertEqual(self.configure("0.0.9"), (calls, ""))
        for default in ("", "UPGRADE=\n", "UPGRADE=reload\nUPGRADE=restart # now\n",
                        "#UPGRADE=reload\n"):
            self.write("default", default)
            self.assertEqual(self.configure("0.0.9"), (calls, ""), default)

    def test_a_daemon_whose_configuration_is_refused_goes_on(self):
        self.add_daemon("lyred.service", "/etc/lyre/refused.toml")
        self.add_daemon("lyred@team-a.service", "/etc/lyre/team-a.toml")
        said = (f"lyre: lyred.service {OLD_PROGRAM}lyred --check of the new one fails:\n"
                "lyred: /etc/lyre/refused.toml:7: tcp.old: unknown key\n"
                "lyre: correct that before its next start; then systemctl restart lyred.service, "
                f"or reload\n{MAY_NOT_BE_READ}")
        self.assertEqual(self.configure("0.0.9"),
                         (["debhelper", "restart lyred@team-a.service"], said))
        # After a reload that fails the old program goes on. The check refuses more than a start.
        self.write("default", "UPGRADE=reload\n")
        self.assertEqual(self.configure("0.0.9"), (
            ["debhelper", "reload lyred.service", "reload lyred@team-a.service"], ""))

    def test_a_daemon_that_does_not_start_again_is_named(self):
        self.add_daemon("lyred.service", "/etc/lyre/lyred.toml")
        self.stand_in("deb-systemd-invoke", "exit 1")
        self.assertEqual(self.configure("0.0.9"), (
            ["debhelper"], "lyre: lyred.service did not start again: journalctl -u lyred.service "
            "says why\n"))

    def test_a_unit_of_another_program_is_left_alone(self):
        for shown in (exec_start("/usr/bin/podman", "run", "localhost/lyre:0.1.0"),
                      exec_start("/usr/local/bin/lyred", "--config", "/etc/lyre/lyred.toml"), ""):
            self.write("running")
            self.add_unit("lyred.service", shown)
            self.assertEqual(self.configure("0.0.9"), (
                ["debhelper"], f"lyre: lyred.service {OLD_PROGRAM}its unit does not start "
                f"/usr/bin/lyred, or is masked\n{MAY_NOT_BE_READ}"))

    def test_the_operator_chooses_the_live_upgrade(self):
        self.add_daemon("lyred.service", "/etc/lyre/lyred.toml")
        for default in ("UPGRADE=reload\n", 'UPGRADE="reload"\n', "UPGRADE='reload'  # live\n",
                        "UPGRADE=reload \n", "UPGRADE=restart\nUPGRADE=reload\n"):
            self.write("default", default)
            self.assertEqual(self.configure("0.0.9"),
                             (["debhelper", "reload lyred.service"], ""))
        self.stand_in("deb-systemd-invoke", 'echo "$*" >> "$FOLDER/calls"; exit 1')
        self.assertEqual(self.configure("0.0.9"), (
            ["debhelper", "reload lyred.service"],
            f"lyre: lyred.service {OLD_PROGRAM}the reload failed: journalctl -u lyred.service says "
            f"why; mend that, and reload or restart\n{MAY_NOT_BE_READ}"))

    def test_an_unknown_choice_stops_no_daemon(self):
        self.add_daemon("lyred.service", "/etc/lyre/lyred.toml")
        for wrong in ("live", "Reload"):
            self.write("default", f"UPGRADE={wrong}\n")
            self.assertEqual(self.configure("0.0.9"), (
                ["debhelper"], f"lyre: lyred.service {OLD_PROGRAM}UPGRADE in /etc/default/lyre is "
                f"'{wrong}', allowed: restart, reload\n{MAY_NOT_BE_READ}"))

    def test_nothing_is_replaced_where_nothing_runs_before(self):
        self.assertEqual(self.configure("0.0.9"), (["debhelper"], ""))
        self.add_daemon("lyred.service", "/etc/lyre/lyred.toml")
        self.assertEqual(self.configure(""), (["debhelper"], ""))
        self.assertEqual(self.configure("0.0.9", DPKG_ROOT="/root"), (["debhelper"], ""))
        os.rmdir(self.path("systemd"))
        self.assertEqual(self.configure("0.0.9"), (["debhelper"], ""))


LEFT_BY_A_BUILD = shutil.ignore_patterns(".debhelper", "*.debhelper", "*.debhelper.log",
                                         "*.substvars", "debhelper-build-stamp", "files", "tmp",
                                         "lyre")


@unittest.skipUnless(shutil.which("dh_installsystemd"), "no debhelper on this machine")
class Debhelper(unittest.TestCase):
    def test_it_replaces_no_daemon(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(SOURCE_ROOT, "debian"), os.path.join(folder, "debian"),
                            ignore=LEFT_BY_A_BUILD)
            units = os.path.join(folder, "debian/lyre/lib/systemd/system")
            os.makedirs(units)
            for unit in ("lyred.service", "lyre-metrics.service"):
                shutil.copy(os.path.join(SOURCE_ROOT, "config", f"{unit}.in"),
                            os.path.join(units, unit))
            for command in (["make", "-f", "debian/rules", "override_dh_installsystemd"],
                            ["dh_installdeb", "--package=lyre"]):
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True,
                                      timeout=BOUND_S, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
            scripts = {}
            for name in ("postinst", "prerm"):
                with open(os.path.join(folder, "debian/lyre/DEBIAN", name),
                          encoding="utf-8") as file:
                    scripts[name] = file.read()
        # The script's own calls are of "$1".
        calls = [line.split()[1:3] for line in scripts["postinst"].splitlines()
                 if line.strip().startswith("deb-systemd-invoke") and '"$1"' not in line]
        self.assertEqual(calls, [["start", "'lyred.service'"],
                                 ["$_dh_action", "'lyre-metrics.service'"]])
        for part in scripts["prerm"].split("# Automatically added by")[1:]:
            self.assertIn('[ "$1" = remove ]', part)
        self.assertIn("stop 'lyred.service'", scripts["prerm"])


@unittest.skipUnless(shutil.which("perl"), "no perl on this machine")
class Needrestart(unittest.TestCase):
    def test_it_restarts_no_daemon(self):
        # As needrestart reads its conf.d, and looks for a unit.
        program = r"""our %nrconf = (override_rc => {qr(^dbus) => 0});
eval do { local(@ARGV, $/) = shift; <> };
die $@ if $@;
for my $unit (@ARGV) {
  my ($rule) = grep { $unit =~ /$_/ } keys %{$nrconf{override_rc}};
  print defined $rule ? $nrconf{override_rc}->{$rule} : 1;
}"""
        units = ["lyred.service", "lyred@team-a.service", "lyre-metrics.service", "lyred-x.service"]
        done = subprocess.run(["perl", "-w", "-e", program,
                               os.path.join(SOURCE_ROOT, "config/needrestart/lyre.conf"), *units],
                              capture_output=True, text=True, timeout=BOUND_S, check=False)
        self.assertEqual((done.stdout, done.stderr), ("0011", ""))


if __name__ == "__main__":
    SOURCE_ROOT = os.path.abspath(sys.argv.pop())
    unittest.main(verbosity=2)
