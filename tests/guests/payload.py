"""Lyre as a guest gets it: the tree that `meson install` makes, and the packages it needs."""

import os
import shutil
import subprocess
import tarfile

import host

INSTALL_TIMEOUT_S = 120


def install(build, destination):
    """`meson install` of `build` into the empty folder `destination`."""
    shutil.rmtree(destination, ignore_errors=True)
    done = subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--strip", "--quiet",
                           "--destdir", os.path.abspath(destination)],
                          capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise host.HostError(f"meson install from {build} failed (is it built?):\n"
                             + (done.stdout + done.stderr)[-2000:])


def _elf_files(tree):
    for folder, _, files in os.walk(tree):
        for name in files:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                continue
            with open(path, "rb") as f:
                if f.read(4) == b"\x7fELF":
                    yield path


def _shared_libraries(tree):
    """Every library outside `tree` that its programs are linked against, directly or not."""
    elfs = list(_elf_files(tree))
    env = dict(os.environ, LD_LIBRARY_PATH=":".join(sorted({os.path.dirname(e) for e in elfs})))
    found = set()
    for elf in elfs:
        ldd = subprocess.run(["ldd", elf], env=env, capture_output=True, text=True, check=False)
        for line in ldd.stdout.splitlines():
            if "not found" in line:
                raise host.HostError(f"{elf} needs a library that this host lacks: {line.strip()}")
            path = line.partition("=>")[2].split(" (")[0].strip()
            if path and not os.path.realpath(path).startswith(os.path.realpath(tree)):
                found.add(os.path.realpath(path))
    return found


def runtime_packages(tree):
    """The packages that own those libraries; a library that no package owns is an error."""
    packages = set()
    for library in _shared_libraries(tree):
        # dpkg knows a file by the name it was shipped under, before or after the /usr merge.
        names = {library, library.removeprefix("/usr")}
        query = subprocess.run(["dpkg-query", "-S", *names], capture_output=True, text=True,
                               check=False)
        owners = [line.split(":")[0] for line in query.stdout.splitlines() if ": /" in line]
        if not owners:
            raise host.HostError(f"no package owns {library}")
        packages.add(owners[0])
    return packages


def _as_root(member):
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def pack(tree, path):
    with tarfile.open(path, "w") as archive:
        archive.add(tree, arcname=".", filter=_as_root)
