#!/usr/bin/env python3
"""Fails when the plugin needs more of a machine than the oldest supported one has: a symbol of a
newer glibc, a symbol of libstdc++, another library, or a symbol that no library has. Fails also
when lyred does not export a function that it defines in place of a library's.

usage: symbols.py PLUGIN LYRED
"""

import re
import shutil
import subprocess
import sys

SKIP = 77
NEWEST = {"GLIBC": (2, 28), "GCC": (4, 2, 0)}
LIBRARIES = re.compile(r"lib(c|dl|pthread|gcc_s)\.so\.\d|ld-linux.*\.so\.\d")
# DPDK and its drivers call these: stack/io/dpdk/xdp_attachment.cc, stack/io/dpdk/driver_calls.cc.
IN_PLACE_OF_A_LIBRARY = ("bpf_xdp_attach", "bpf_xdp_detach", "rte_intr_callback_unregister")


def readelf(option, path):
    return subprocess.run(["readelf", "--wide", option, path], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def version(text):
    return tuple(int(part) for part in text.split("."))


def with_version(symbols):
    """Name, owner and version of each undefined symbol that has a version."""
    return re.findall(r" UND (\w+)@([A-Z]+)_([0-9.]+)", symbols)


def too_new(symbols):
    for name, owner, text in sorted(set(with_version(symbols))):
        if owner not in NEWEST:
            yield f"{name} is of {owner}_{text}: no library with such symbols may be needed"
        elif version(text) > NEWEST[owner]:
            newest = ".".join(map(str, NEWEST[owner]))
            yield (f"{name} is of {owner}_{text}, and {newest} is the newest allowed: avoid it, or "
                   "bind it to its first version in nccl_adapter/plugin/glibc_floor.cc")


def without_version(symbols):
    """All that glibc has is of a version. What a weak symbol names may be absent."""
    for name in re.findall(r" GLOBAL .* UND (\w+)$", symbols, re.MULTILINE):
        yield f"{name} is undefined, and of no version: no library has it"


def strangers(path):
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", path)):
        if not LIBRARIES.fullmatch(name):
            yield f"needs {name}"


def not_exported(symbols):
    exported = re.findall(r" (?:GLOBAL|WEAK) +DEFAULT .*\b\d+ (\w+)", symbols)
    for name in sorted(set(IN_PLACE_OF_A_LIBRARY) - set(exported)):
        yield f"does not export {name}: the library calls its own instead"


def main():
    plugin, lyred = sys.argv[1:]
    if shutil.which("readelf") is None:
        print("SKIP: no readelf on this machine (binutils)")
        return SKIP
    symbols = readelf("--dyn-syms", plugin)
    if not with_version(symbols):
        print(f"{plugin}: no symbol with a version: is it a library?")
        return 1
    problems = [f"{plugin}: {problem}" for problem in
                (*too_new(symbols), *without_version(symbols), *strangers(plugin))]
    problems += [f"{lyred}: {problem}" for problem in not_exported(readelf("--dyn-syms", lyred))]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
