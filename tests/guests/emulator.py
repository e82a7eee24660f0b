"""A QEMU that is new enough: the host's, or else Debian 13's, in a root of its own in the cache."""

import os
import re
import shutil
import subprocess

import host

NAME = "qemu-system-x86_64"
SUITE = "trixie"  # QEMU 10.0
BUILD_TIMEOUT_S = 600
VERSION_TIMEOUT_S = 30


def ensure(cache, version):
    """Returns the words that start a QEMU of at least that major version."""
    if _major_version([NAME]) >= version:
        return [NAME]
    root = os.path.join(os.path.abspath(cache), "qemu-root")
    if not os.path.exists(root):
        print(f"guests: building a Debian {SUITE} root for QEMU {version} or later", flush=True)
        _build(root, os.path.join(cache, "qemu-root.log"))
    words = _within(root)
    if _major_version(words) < version:
        raise host.HostError(f"QEMU in {root} is older than {version}")
    return words


def _major_version(words):
    done = subprocess.run([*words, "--version"], capture_output=True, text=True, check=False,
                          timeout=VERSION_TIMEOUT_S)
    found = re.search(r"version (\d+)", done.stdout)
    return int(found.group(1)) if found else 0


def _build(root, log_path):
    part = root + ".part"
    shutil.rmtree(part, ignore_errors=True)
    command = ["mmdebstrap", "--variant=extract", "--include=qemu-system-x86"]
    command += [f"--aptopt={option}" for option in host.apt_options()]
    with open(log_path, "w", encoding="utf-8") as log:
        done = subprocess.run([*command, SUITE, part], stdin=subprocess.DEVNULL, stdout=log,
                              stderr=log, timeout=BUILD_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise host.HostError(f"mmdebstrap failed ({done.returncode}); its log is {log_path}")
    os.rename(part, root)


def _within(root):
    """The root's QEMU, with the root's loader and libraries, and this host's files."""
    libraries = f"{root}/usr/lib/x86_64-linux-gnu"
    return ["env", f"QEMU_MODULE_DIR={libraries}/qemu",
            f"{libraries}/ld-linux-x86-64.so.2", "--library-path", libraries,
            f"{root}/usr/bin/{NAME}", "-L", f"{root}/usr/share/qemu",
            "-L", f"{root}/usr/share/seabios", "-L", f"{root}/usr/lib/ipxe/qemu"]
