#!/usr/bin/env python3
"""Compares the ABI of liblyre with the one that a release promised.

The ABI is what a C program sees: the types of lyre.h and the exported symbols with their versions.
abidw (Debian: abigail-tools) describes them, abidiff compares two descriptions.

usage: abi.py check    --header H --map M --built L --description D
       abi.py describe --header H --map M --built L --description D    writes D anew

A description is written once for a release. Later releases may add functions, enumerators, and
fields at the end of a struct that begins with struct_bytes. Exit status: 0 the same or only more,
1 not compatible, 77 the tools are missing.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

SIZED_FIELD = "struct_bytes"
SKIPPED = 77
TIMEOUT_S = 60


class Breach(Exception):
    """One line about what is not compatible."""


def run(command):
    return subprocess.run(command, timeout=TIMEOUT_S, capture_output=True, text=True, check=False)


def run_or_stop(command):
    done = run(command)
    if done.returncode != 0:
        raise Breach(f"{command[0]} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def declared_functions(header):
    """The declarations of the functions that lyre.h exports, without their ';'."""
    with open(header, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    return text, re.findall(r"^LYRE_API\s+([^;{]+\([^;]*\));", text, flags=re.M)


def compiled_header(header, version_script, folder):
    """A library whose debug information has the types of lyre.h and its functions, as C."""
    text, functions = declared_functions(header)
    enums = re.findall(r"\benum (lyre_\w+) \{", text)
    lines = [f'#include "{os.path.abspath(header)}"']
    lines += [f"{function} {{ __builtin_trap(); }}" for function in functions]
    # The compiler describes an enumeration only when something has that type.
    lines += [f"__attribute__((used)) static enum {name} anchor_{name};" for name in enums]
    source = os.path.join(folder, "lyre.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    library = os.path.join(folder, "liblyre.so")
    # Padding at the end of a struct would be taken for its next field: there is none.
    run_or_stop(["gcc", "-std=c11", "-g", "-O0", "-fPIC", "-shared", "-Wpadded", "-Werror",
                 f"-Wl,--version-script={version_script}", "-Wl,-soname,liblyre.so.0",
                 source, "-o", library])
    return library


def described(header, version_script, folder):
    library = compiled_header(header, version_script, folder)
    path = os.path.join(folder, "new.abi")
    run_or_stop(["abidw", "--load-all-types", "--no-corpus-path", "--no-comp-dir-path",
                 "--no-show-locs", "--no-elf-needed", "--type-id-style", "hash", library,
                 "--out-file", path])
    return path


def exported(library):
    """The defined dynamic symbols with their versions, and what else is exported."""
    table = run_or_stop(["readelf", "--dyn-syms", "--wide", library])
    symbols = set()
    for line in table.splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[0].rstrip(":").isdigit() and fields[6] not in ("UND", "ABS"):
            symbols.add(fields[7])
    return symbols


def soname(library):
    match = re.search(r"Library soname: \[([^]]+)\]", run_or_stop(["readelf", "-d", library]))
    return match[1] if match else None


def check_exports(built, declared):
    """The built library exports what the header and the version script say, and no more."""
    wanted, found = exported(declared), exported(built)
    if wanted != found:
        raise Breach(f"{os.path.basename(built)} does not export what lyre.h declares: missing "
                     f"{sorted(wanted - found)}, too many {sorted(found - wanted)}")
    if soname(built) != soname(declared):
        raise Breach(f"the SONAME is {soname(built)}, not {soname(declared)}")


def members(struct):
    return [(member.get("layout-offset-in-bits"), member[0].get("name"), member[0].get("type-id"))
            for member in struct.findall("data-member")]


def structs(tree):
    return {struct.get("name"): struct for struct in tree.iter("class-decl")
            if struct.find("data-member") is not None}


def is_grown(old, new):
    """True when `new` is `old`, a struct that carries its size, with more fields behind it."""
    old_members, new_members = members(old), members(new)
    return (old_members[0][1] == SIZED_FIELD and len(new_members) > len(old_members) and
            new_members[:len(old_members)] == old_members and
            int(new_members[len(old_members)][0]) >= int(old.get("size-in-bits")))


def without_growth(old_path, new_path):
    """Takes from the new description the fields that a struct with its size may get."""
    old, tree = structs(ElementTree.parse(old_path)), ElementTree.parse(new_path)
    for name, struct in structs(tree).items():
        if name not in old or not is_grown(old[name], struct):
            continue
        for member in struct.findall("data-member")[len(members(old[name])):]:
            struct.remove(member)
        struct.set("size-in-bits", old[name].get("size-in-bits"))
    tree.write(new_path)


def compare(old_path, new_path):
    without_growth(old_path, new_path)
    done = run(["abidiff", "--no-added-syms", "--non-reachable-types", old_path, new_path])
    if done.returncode != 0:
        raise Breach("programs compiled against the release would break:\n" +
                     (done.stdout + done.stderr).strip())


def check(header, version_script, built, description):
    with tempfile.TemporaryDirectory(prefix="lyre-abi.") as folder:
        new_path = described(header, version_script, folder)
        if built is not None:
            check_exports(built, os.path.join(folder, "liblyre.so"))
        compare(description, new_path)


def describe(header, version_script, description):
    with tempfile.TemporaryDirectory(prefix="lyre-abi.") as folder:
        shutil.copyfile(described(header, version_script, folder), description)


def missing_tool():
    return next((tool for tool in ("gcc", "readelf", "abidw", "abidiff")
                 if shutil.which(tool) is None), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("check", "describe"))
    for name in ("header", "map", "built", "description"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    if (tool := missing_tool()) is not None:
        print(f"SKIP: no {tool} on this machine: tools/install-dependencies")
        return SKIPPED
    try:
        if options.what == "describe":
            describe(options.header, options.map, options.description)
        check(options.header, options.map, options.built, options.description)
    except Breach as breach:
        print(f"FAIL: {breach}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
