#!/usr/bin/env python3
"""Fails when a library needs more of a machine than the oldest supported one has: a symbol of a
newer glibc, a symbol of libstdc++, or another library.

usage: symbols.py LIBRARY
"""

import re
import shutil
import subprocess
import sys

SKIP = 77
NEWEST = {"GLIBC": (2, 28), "GCC": (4, 2, 0)}
LIBRARIES = re.compile(r"lib(c|dl|pthread|gcc_s)\.so\.\d|ld-linux.*\.so\.\d")


def readelf(option, path):
    return subprocess.run(["readelf", "--wide", option, path], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def version(text):
    return tuple(int(part) for part in text.split("."))


def undefined(path):
    """Name, owner and version of each undefined symbol that has a version."""
    return re.findall(r" UND (\w+)@([A-Z]+)_([0-9.]+)", readelf("--dyn-syms", path))


def too_new(symbols):
    for name, owner, text in sorted(set(symbols)):
        if owner not in NEWEST:
            yield f"{name} is of {owner}_{text}: no library with such symbols may be needed"
        elif version(text) > NEWEST[owner]:
            newest = ".".join(map(str, NEWEST[owner]))
            yield (f"{name} is of {owner}_{text}, and {newest} is the newest allowed: avoid it, or "
                   "bind it to its first version in nccl_adapter/plugin/glibc_floor.cc")


def strangers(path):
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", path)):
        if not LIBRARIES.fullmatch(name):
            yield f"needs {name}"


def main():
    path = sys.argv[1]
    if shutil.which("readelf") is None:
        print("SKIP: no readelf on this machine (binutils)")
        return SKIP
    symbols = undefined(path)
    if not symbols:
        print(f"{path}: no symbol with a version: is it a library?")
        return 1
    problems = [*too_new(symbols), *strangers(path)]
    for problem in problems:
        print(f"{path}: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
