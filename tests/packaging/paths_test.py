#!/usr/bin/env python3
"""The installed files that the pages for users and deploy/ name are those that the build installs.

usage: paths_test.py SOURCE_ROOT BUILD_ROOT
"""

import fnmatch
import glob
import json
import os
import re
import sys
import unittest

# What is named with its prefix: /usr/share/lyre/..., /usr/local/lib/..., PREFIX/share/...; in
# tables without one.
NAMED = re.compile(r"(?<![\w./*-])(?:/usr/local/|/usr/|PREFIX/|/(?=lib/systemd/))?"
                   r"((?:bin|sbin|include|lib|share)/[\w./@*-]*[\w*])")
# Debian's folders of one architecture.
ARCHITECTURE = re.compile(r"^lib/[a-z0-9_]+-linux-gnu\b")
# Made by deploy/container/build in the image only.
OF_THE_IMAGE = {"sbin/lyred-container"}


def text_of(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def installed():
    """Paths below the prefix."""
    with open(os.path.join(BUILD, "meson-info/intro-buildoptions.json"), encoding="utf-8") as file:
        prefix = next(one["value"] for one in json.load(file) if one["name"] == "prefix")
    with open(os.path.join(BUILD, "meson-info/intro-installed.json"), encoding="utf-8") as file:
        # Debian 12 has its units in /lib, which is /usr/lib.
        paths = {os.path.relpath(path, prefix).removeprefix("../")
                 for path in json.load(file).values()}
    for path in glob.glob(os.path.join(SOURCE, "debian/*.examples")):
        package = os.path.basename(path).removesuffix(".examples")
        paths |= {f"share/doc/{package}/examples/{os.path.basename(line)}"
                  for line in text_of(path).split()}
    # Where the build has no Prometheus library.
    paths.add("lib/systemd/system/lyre-metrics.service")
    return {ARCHITECTURE.sub("lib/*", path) for path in paths}


def is_there(named, paths):
    """Whether `named` is one of them, or a folder of one; both may have wildcards."""
    wanted = ARCHITECTURE.sub("lib/*", named)
    return any(fnmatch.fnmatch(path, wanted) or fnmatch.fnmatch(path, wanted + "/*")
               for path in paths)


def files():
    for path in ["README.md", *glob.glob("docs/user/*.md", root_dir=SOURCE),
                 *glob.glob("deploy/*/*", root_dir=SOURCE)]:
        if path != "deploy/container/build":
            yield path


class Paths(unittest.TestCase):
    def test_what_is_named_is_installed(self):
        there, seen = installed(), set()
        for path in files():
            for named in NAMED.findall(text_of(path)):
                if "lyre" not in named or named in OF_THE_IMAGE:
                    continue
                seen.add(named)
                self.assertTrue(is_there(named, there), f"{path}: {named} is not installed")
        self.assertGreater(len(seen), 20)

    def test_all_of_kubernetes_is_installed(self):
        there = installed()
        for name in os.listdir(os.path.join(SOURCE, "deploy/kubernetes")):
            self.assertIn(f"share/lyre/kubernetes/{name}", there)

    def test_what_is_not_installed_is_found(self):
        there = installed()
        self.assertIn("bin/lyred", there)
        for named in ("share/lyre/kubernetes/absent.yaml", "lib/x86_64-linux-gnu/libabsent-lyre.so",
                      "lib/systemd/system/lyre-absent.service", "share/lyr"):
            self.assertFalse(is_there(named, there), named)
        self.assertEqual(NAMED.findall("`/usr/share/lyre/slurm/prolog`, /opt/lyre/lib/x"),
                         ["share/lyre/slurm/prolog"])


if __name__ == "__main__":
    BUILD = sys.argv.pop()
    SOURCE = os.path.abspath(sys.argv.pop())
    unittest.main(verbosity=2)
