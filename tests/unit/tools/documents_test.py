#!/usr/bin/env python3
"""The manual pages and completions that are made from the command line's tables.

usage: documents_test.py FOLDER LYRE
"""

import glob
import os
import shutil
import subprocess
import sys
import unittest

BOUND_S = 60


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=False,
                          **options)


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"no {program} on this machine")


def commands():
    """The names of lyre's commands, as its help lists them."""
    lines = run(LYRE, "--help").stdout.split("Subcommands:\n")[1].splitlines()
    return [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]


class ManualPages(unittest.TestCase):
    def pages(self):
        found = sorted(glob.glob(os.path.join(FOLDER, "*.1")))
        self.assertGreater(len(found), 5)
        return found

    def test_each_command_has_a_page(self):
        names = [os.path.basename(page) for page in self.pages()]
        self.assertEqual(names, sorted(["lyre.1", *(f"lyre-{name}.1" for name in commands())]))

    @needs("mandoc")
    def test_mandoc_finds_nothing_wrong(self):
        done = run("mandoc", "-T", "lint", "-W", "warning", *self.pages())
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    @needs("man")
    def test_man_warns_of_nothing(self):
        for page in self.pages():
            done = run("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page,
                       env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"})
            self.assertEqual((done.returncode, done.stderr), (0, ""), page)

    @needs("mandoc")
    def test_a_page_says_what_help_says(self):
        shown = run("mandoc", "-T", "ascii", os.path.join(FOLDER, "lyre-sessions.1")).stdout
        shown = " ".join("".join(undo_overstrikes(shown)).split())
        for words in ("--watch [SECONDS]", "--sort WORD", "One of sent, received, rtt",
                      "--socket PATH", "No daemon at the socket"):
            self.assertIn(words, shown)


def undo_overstrikes(text):
    """Without the letters that make others bold or underlined on a printer."""
    out = []
    for character in text:
        if character == "\b":
            out.pop()
        else:
            out.append(character)
    return out


class Completion(unittest.TestCase):
    @needs("bash")
    def complete(self, *words):
        script = (f". {FOLDER}/lyre; COMP_WORDS=({' '.join(repr(word) for word in words)}); "
                  f"COMP_CWORD={len(words) - 1}; _lyre; echo \"${{COMPREPLY[@]}}\"")
        done = run("bash", "--norc", "-c", script)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_completes_commands(self):
        self.assertEqual(sorted(self.complete("lyre", "")), sorted(commands()))
        self.assertEqual(self.complete("lyre", "sess"), ["sessions"])
        self.assertEqual(self.complete("lyre", "perf", ""), ["server", "client"])
        self.assertEqual(self.complete("lyre", "help", "nei"), ["neighbours"])

    def test_bash_completes_options(self):
        self.assertEqual(self.complete("lyre", "sessions", "--wi"), ["--wide"])
        self.assertEqual(self.complete("lyre", "nic", "bind", "--dr"), ["--driver", "--dry-run"])
        self.assertEqual(self.complete("lyre", "--socket", "status", "st"), ["status", "stats"])
        self.assertEqual(self.complete("lyre", "stats", "--js"), ["--json"])

    def test_bash_completes_values(self):
        self.assertEqual(self.complete("lyre", "sessions", "--sort", "r"), ["received", "rtt"])
        self.assertEqual(self.complete("lyre", "--socket", FOLDER + "/lyre.fi"),
                         [FOLDER + "/lyre.fish"])

    @needs("fish")
    def test_fish_completes(self):
        def complete(line):
            done = run("fish", "--no-config", "-c",
                       f"source {FOLDER}/lyre.fish; complete -C {line!r}")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return [shown.split("\t")[0] for shown in done.stdout.splitlines()]

        self.assertEqual(complete("lyre sess"), ["sessions"])
        self.assertEqual(sorted(complete("lyre perf ")), ["client", "server"])
        self.assertEqual(complete("lyre sessions --wi"), ["--wide"])
        self.assertEqual(complete("lyre sessions --sort r"), ["received", "rtt"])

    @needs("zsh")
    def test_zsh_takes_the_file(self):
        done = run("zsh", "-f", "-c", f"autoload -Uz compinit; fpath=({FOLDER} $fpath); "
                   "compinit -D -u; autoload +X _lyre && print $_comps[lyre]")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "_lyre\n", ""))


if __name__ == "__main__":
    LYRE = sys.argv.pop()
    FOLDER = os.path.abspath(sys.argv.pop())
    unittest.main(verbosity=2)
