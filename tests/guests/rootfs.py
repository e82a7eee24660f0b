"""The Debian root that both guests boot: made once, kept in the cache folder."""

import hashlib
import json
import os
import shutil
import subprocess

import host

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD_TIMEOUT_S = 900

# A small machine with systemd and the tools that an operator binds a NIC with.
BASE = ["systemd", "systemd-sysv", "udev", "dbus", "kmod", "iproute2", "iputils-ping", "procps",
        "pciutils", "python3", "busybox-static", "strace", "tcpdump"]
# Loaded with dlopen, so no NEEDED entry names them.
DPDK_DRIVERS = ["dpdk", "librte-meta-net", "librte-meta-bus", "librte-meta-mempool"]
# The plugin opens libibverbs with dlopen, too. perftest is what its figures are compared with.
RDMA = ["rdma-core", "libibverbs1", "ibverbs-providers", "perftest"]
LEFT_OUT = ["/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*"]


def digest(*parts):
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def read(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return f.read()


def installed(root):
    """Packages of the root, with the virtual ones that they provide."""
    names = set()
    with open(os.path.join(root, "var/lib/dpkg/status"), encoding="utf-8") as f:
        for line in f:
            field, _, value = line.partition(": ")
            if field in ("Package", "Provides"):
                names |= {one.split()[0] for one in value.split(",")}
    return names


def is_current(root, stamp_path, recipe, wanted):
    try:
        with open(stamp_path, encoding="utf-8") as f:
            stamp = json.load(f)
        return stamp["recipe"] == recipe and wanted <= installed(root)
    except (OSError, ValueError, KeyError):
        return False


def ensure(cache, suite, runtime_packages):
    """Returns (root folder, its identity), building the root when the cache has no fitting one."""
    root = os.path.join(cache, "rootfs")
    stamp_path = os.path.join(cache, "rootfs.json")
    recipe = digest(suite, *BASE, *DPDK_DRIVERS, *RDMA, read("fetch_kernel"))
    wanted = set(BASE) | set(DPDK_DRIVERS) | set(RDMA) | set(runtime_packages)
    if not is_current(root, stamp_path, recipe, wanted):
        for stale in (root, stamp_path):
            shutil.rmtree(stale) if os.path.isdir(stale) else _unlink(stale)
        print(f"guests: building a Debian {suite} root ({len(wanted)} named packages)", flush=True)
        _debootstrap(root, suite, sorted(wanted), os.path.join(cache, "rootfs.log"))
        with open(stamp_path, "w", encoding="utf-8") as f:
            json.dump({"recipe": recipe, "made_of": digest(recipe, *sorted(wanted))}, f)
    with open(stamp_path, encoding="utf-8") as f:
        return root, json.load(f)["made_of"]


def _unlink(path):
    if os.path.exists(path):
        os.unlink(path)


def _debootstrap(root, suite, packages, log_path):
    command = ["mmdebstrap", "--variant=minbase", "--include=" + ",".join(packages)]
    command += [f"--aptopt={option}" for option in host.apt_options()]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
    command += ["--customize-hook=" + os.path.join(HERE, "fetch_kernel"), suite, root]
    with open(log_path, "w", encoding="utf-8") as log:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                              timeout=BUILD_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise host.HostError(f"mmdebstrap failed ({done.returncode}); its log is {log_path}")
