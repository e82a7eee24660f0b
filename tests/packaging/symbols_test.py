#!/usr/bin/env python3
"""symbols.py tells a library that lacks nothing from those that it is there to find.

usage: symbols_test.py COMPILER...
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BOUND_S = 60
PLUGIN = "int puts(const char *); int call(void) { return puts(\"\"); }\n"
LYRED = ("int bpf_xdp_attach; int bpf_xdp_detach;\n"
         "int rte_intr_callback_unregister(void) { return 0; }\n")


@unittest.skipUnless(shutil.which("readelf"), "no readelf on this machine")
class Symbols(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def linked(self, name, text):
        path = os.path.join(self.folder, name)
        subprocess.run([*COMPILER, "-shared", "-fPIC", "-nostdlib", "-x", "c++", "-", "-lc",
                        "-o", path], input=f'extern "C" {{\n{text}}}\n', text=True, check=True,
                       timeout=BOUND_S)
        return path

    def problems(self, plugin=PLUGIN, lyred=LYRED):
        done = subprocess.run([sys.executable, os.path.join(HERE, "symbols.py"),
                               self.linked("plugin.so", plugin), self.linked("lyred", lyred)],
                              stdout=subprocess.PIPE, text=True, check=False, timeout=BOUND_S)
        lines = done.stdout.splitlines()
        self.assertEqual(done.returncode, 1 if lines else 0, lines)
        return lines

    def test_what_every_machine_has(self):
        self.assertEqual(self.problems(), [])

    def test_an_undefined_function(self):
        text = "int nowhere(void); int go(void) { return nowhere(); }\n"
        lines = self.problems(plugin=PLUGIN + text)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("plugin.so: nowhere is undefined", lines[0])

    def test_a_function_of_a_newer_glibc(self):
        text = "int fstat(int, void *); int go(void) { return fstat(0, 0); }\n"
        lines = self.problems(plugin=PLUGIN + text)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("plugin.so: fstat is of GLIBC_2.33", lines[0])

    def test_a_weak_one_may_be_absent(self):
        text = "__attribute__((weak)) int nowhere(void); int go(void) { return nowhere(); }\n"
        self.assertEqual(self.problems(plugin=PLUGIN + text), [])

    def test_a_function_that_is_not_exported(self):
        lines = self.problems(lyred=LYRED.replace("int rte_", "static int rte_"))
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("lyred: does not export rte_intr_callback_unregister", lines[0])


if __name__ == "__main__":
    COMPILER = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
