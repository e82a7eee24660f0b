"""Lyre as an operator gets it: Debian packages, and the same once more as a later version."""

import glob
import os
import re
import shutil
import subprocess

import host

NAMES = ("lyre", "lyre-nccl")
# What the packages recommend and `lyre nic bind` calls.
RECOMMENDED = {"driverctl", "pciutils"}
# What the operator of the walk has besides: a scraper, and a screen that can be read.
TOOLS = {"prometheus", "tmux"}
LATER = "+next"
PACK_TIMEOUT_S = 120


def _run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          timeout=PACK_TIMEOUT_S).stdout


def are_in(folder):
    return all(glob.glob(os.path.join(folder, f"{name}_*.deb")) for name in NAMES)


def prepare(folder, destination):
    """Copies the packages of `folder` to destination/now and makes the later ones in
    destination/next; returns the packages that they need."""
    if not are_in(folder):
        raise host.HostError(f"no packages in {folder}: tools/package deb")
    shutil.rmtree(destination, ignore_errors=True)
    for part in ("now", "next", "tree"):
        os.makedirs(os.path.join(destination, part))
    needed = RECOMMENDED | TOOLS
    for name in NAMES:
        path = sorted(glob.glob(os.path.join(folder, f"{name}_*.deb")))[-1]
        shutil.copy(path, os.path.join(destination, "now"))
        needed |= _needs_of(path)
        _make_later(path, os.path.join(destination, "tree", name),
                    os.path.join(destination, "next"))
    shutil.rmtree(os.path.join(destination, "tree"))
    return needed - set(NAMES)


def _needs_of(path):
    fields = _run("dpkg-deb", "--field", path, "Pre-Depends", "Depends")
    text = re.sub(r"^(Pre-)?Depends:", ",", fields, flags=re.MULTILINE)
    text = re.sub(r"\s+", " ", text)
    # Of alternatives the first one.
    return {choice.split("|")[0].split("(")[0].split(":")[0].strip()
            for choice in text.split(",")} - {""}


def _make_later(path, tree, folder):
    version = _run("dpkg-deb", "--field", path, "Version").strip()
    _run("dpkg-deb", "--raw-extract", path, tree)
    control = os.path.join(tree, "DEBIAN/control")
    with open(control, encoding="utf-8") as file:
        text = file.read()
    text = text.replace(f"Version: {version}\n", f"Version: {version}{LATER}\n")
    with open(control, "w", encoding="utf-8") as file:
        file.write(text.replace(f"(= {version})", f"(= {version}{LATER})"))
    _run("dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, folder)
