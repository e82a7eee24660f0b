"""What the host must have before a guest can be built or booted."""

import os
import shutil
import subprocess

# Command that proves the package is there -> Debian package.
NEEDED = {
    "mmdebstrap": "mmdebstrap",
    "qemu-system-x86_64": "qemu-system-x86",
    "mke2fs": "e2fsprogs",
    "ip": "iproute2",
    "dpkg-deb": "dpkg",
}
APT_TIMEOUT_S = 600


class HostError(Exception):
    """The host cannot run guests; the text says why and what would help."""


def missing_packages():
    return sorted({pkg for cmd, pkg in NEEDED.items() if shutil.which(cmd) is None})


def require(install=True):
    """Returns once every tool of NEEDED is there, installing what is missing."""
    if os.geteuid() != 0:
        raise HostError("must run as root: it makes a file system with device nodes and owners")
    packages = missing_packages()
    if not packages:
        return
    if not install:
        raise HostError("missing packages: " + " ".join(packages))
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for step in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        subprocess.run(["apt-get", "-q", *step], env=env, check=True, timeout=APT_TIMEOUT_S)


def suite():
    """The Debian release of this host: Lyre's binaries are linked against its libraries."""
    release = {}
    with open("/etc/os-release", encoding="utf-8") as f:
        for line in f:
            key, _, value = line.strip().partition("=")
            release[key] = value.strip('"')
    if release.get("ID") != "debian":
        raise HostError("guests run the binaries built here, so they need the host's release; only "
                        f"Debian hosts are supported, and this is {release.get('PRETTY_NAME')}")
    return release["VERSION_CODENAME"]


def apt_options():
    """The host's proxy and date-check settings, for the guest's apt to reach the same mirrors."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    wanted = ("Acquire::http::", "Acquire::https::", "Acquire::Check-")
    return [line.rstrip(";") for line in dump.splitlines()
            if line.startswith(wanted) and not line.endswith('"";')]
