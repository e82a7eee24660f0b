#!/usr/bin/env python3
"""The manual pages and completions that are made from the command line's tables.

usage: documents_test.py FOLDER LYRE LYRED CONFIG
"""

import glob
import os
import re
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
        found = sorted(glob.glob(os.path.join(FOLDER, "*.[158]")))
        self.assertGreater(len(found), 7)
        return found

    def text_of(self, page):
        shown = run("mandoc", "-T", "ascii", os.path.join(FOLDER, page)).stdout
        return " ".join("".join(undo_overstrikes(shown)).split())

    def test_each_command_has_a_page(self):
        names = [os.path.basename(page) for page in self.pages() if page.endswith(".1")]
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
        shown = self.text_of("lyre-sessions.1")
        for words in ("--watch [SECONDS]", "--sort WORD", "One of sent, received, retransmitted",
                      "--socket PATH", "No daemon at the socket", "does not answer for two seconds",
                      "LYRE_TELEMETRY_DIR"):
            self.assertIn(words, shown)

    @needs("mandoc")
    def test_the_daemons_page_has_its_options(self):
        shown = self.text_of("lyred.8")
        options = re.findall(r"--[a-z]+", run(LYRED, "--help").stdout)
        self.assertGreater(len(options), 2)
        for option in options:
            self.assertIn(option, shown)
        for words in ("--check Check the configuration", "Default: /etc/lyre/lyred.toml", "SIGHUP"):
            self.assertIn(words, shown)

    @needs("mandoc")
    def test_the_configurations_page_has_every_key(self):
        shown = self.text_of("lyred.toml.5")
        with open(CONFIG, encoding="utf-8") as file:
            lines = re.findall(r"^#?(?:\[(.*)\]|([a-z_]+) = (.*))$", file.read(), re.MULTILINE)
        self.assertGreater(len(lines), 70)
        for section, key, value in lines:
            self.assertIn(f"[{section}]" if section else f" {key} ", shown)
        for words in ('Allowed: "auto", "yes", "no". Default: "auto".', "Required."):
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
        self.assertEqual(self.complete("lyre", "stats", "--wo"), ["--workers"])
        self.assertEqual(self.complete("lyre", "allreduce", "--set"), ["--setsid"])

    def test_bash_completes_values(self):
        self.assertEqual(self.complete("lyre", "sessions", "--sort", "r"),
                         ["received", "retransmitted", "rtt"])
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
        self.assertEqual(complete("lyre sessions --sort r"), ["received", "retransmitted", "rtt"])

    @needs("zsh")
    def test_zsh_takes_the_file(self):
        done = run("zsh", "-f", "-c", f"autoload -Uz compinit; fpath=({FOLDER} $fpath); "
                   "compinit -D -u; autoload +X _lyre && print $_comps[lyre]")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "_lyre\n", ""))


class Pages(unittest.TestCase):
    """The commands that the pages for users tell to run."""

    def told(self):
        """(page, command, its options), in backticks and in blocks."""
        root = os.path.dirname(os.path.dirname(os.path.abspath(CONFIG)))
        known = commands()
        for page in [*glob.glob(os.path.join(root, "docs/user/*.md")),
                     os.path.join(root, "README.md")]:
            with open(page, encoding="utf-8") as file:
                text = file.read()
            for name, rest in re.findall(r"(?<![\w/])lyre ([a-z]+)\b([^`|#<>\n]*)", code_of(text)):
                if name in known:
                    yield os.path.basename(page), name, rest

    def test_their_options_are_there(self):
        helps, options_seen = {}, 0
        for page, name, rest in self.told():
            if name not in helps:
                helps[name] = "".join(run(LYRE, *words).stdout for words in (
                    ("--help",), (name, "--help"), *subcommand_helps(name)))
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", rest):
                options_seen += 1
                self.assertRegex(helps[name], option + r"\b(?!-)",
                                 f"{page}: lyre {name} {option}")
        self.assertGreater(options_seen, 20)


def code_of(text):
    """What stands in backticks, and in blocks between ```."""
    parts = text.split("```")
    return "\n".join([*parts[1::2], *re.findall(r"`([^`\n]+)`", "\n".join(parts[0::2]))])


def subcommand_helps(name):
    shown = run(LYRE, name, "--help").stdout.split("Subcommands:\n")
    lines = shown[1].splitlines() if len(shown) > 1 else []
    return [(name, line.split()[0], "--help") for line in lines
            if line.startswith("  ") and line[2] != " "]


if __name__ == "__main__":
    CONFIG = sys.argv.pop()
    LYRED = sys.argv.pop()
    LYRE = sys.argv.pop()
    FOLDER = os.path.abspath(sys.argv.pop())
    unittest.main(verbosity=2)
