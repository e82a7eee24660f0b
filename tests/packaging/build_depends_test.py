#!/usr/bin/env python3
"""tools/install-dependencies installs what debian/control builds with, so that `tools/package deb`
runs on a machine that has nothing yet.

usage: build_depends_test.py SOURCE_ROOT
"""

import os
import re
import sys
import unittest

# What dpkg asks for without being told.
IMPLIED = "build-essential"
# Of debhelper itself, or of what the groups install.
VIRTUAL = {"debhelper-compat": "debhelper", "dh-sequence-installsysusers": "debhelper"}


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def built_with():
    """The alternatives of each build dependency, without versions."""
    field = re.search(r"^Build-Depends:\n((?: .*\n)+)", text_of("debian/control"), re.M).group(1)
    entries = [entry.strip() for entry in field.replace("\n", " ").split(",") if entry.strip()]
    return [[IMPLIED]] + [[re.split(r"[ (]", name.strip())[0] for name in entry.split("|")]
                          for entry in entries]


def installed():
    groups = re.findall(r"^(?:build|package)_packages=\(([^)]*)\)",
                        text_of("tools/install-dependencies"), re.M)
    return set(" ".join(groups).split())


class BuildDepends(unittest.TestCase):
    def test_each_is_installed(self):
        there = installed()
        self.assertIn("debhelper", there)
        for alternatives in built_with():
            names = {VIRTUAL.get(name, name) for name in alternatives}
            self.assertTrue(names & there, alternatives)


if __name__ == "__main__":
    ROOT = sys.argv.pop(1)
    unittest.main(verbosity=2)
