#!/usr/bin/env python3
"""Runs the NCCL plugin of each build on the daemons of every other build.

A build is a build folder, or a folder into which the packages of a release were extracted with
`dpkg-deb -x`. Every pair has to finish a verified all-reduce. With --versions, the first build also
runs as older and newer builds that speak some versions of the channel only: pairs with a common
version have to finish, and the others have to be refused with the line that says whom to upgrade.

LYRE_TEST_RELEASES may name a folder with a folder for each release.
"""

import argparse
import glob
import os
import re
import shlex
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))

import processes
from daemon import DaemonError
from two_hosts import TwoHosts

JOB_TIMEOUT_S = 120
PLACES = {
    "lyred": ("daemon/lyred", "usr/bin/lyred"),
    "lyre": ("tools/lyre/lyre", "usr/bin/lyre"),
    "plugin": ("nccl_adapter/libnccl-net-lyre.so", "usr/lib/*/libnccl-net-lyre.so"),
}
ABI = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../stack/channel/abi.h")
REFUSED = "upgrade"


class Build:
    """Programs and plugin of one version. `versions` are those of the channel that it speaks; None:
    all that it was built with."""

    def __init__(self, folder, versions=None, preload=None):
        self.folder = os.path.abspath(folder)
        self.versions = versions
        self.preload = preload
        self.lyred, self.lyre, self.plugin = (self._find(name) for name in PLACES)

    def __str__(self):
        name = os.path.basename(self.folder)
        return f"{name} of channel {'-'.join(map(str, self.versions))}" if self.versions else name

    def _find(self, name):
        for place in PLACES[name]:
            found = glob.glob(os.path.join(self.folder, place))
            if found:
                return found[0]
        raise DaemonError(f"{self.folder} has no {name}")

    def environment(self):
        if not self.versions:
            return {}
        return {"LD_PRELOAD": self.preload,
                "LYRE_TEST_CHANNEL_VERSIONS": "-".join(map(str, self.versions))}


class Programs:
    """What TwoHosts starts: lyred by a script, so that nothing else has its environment."""

    def __init__(self, build, folder):
        self.lyre = build.lyre
        self.lyred = os.path.join(folder, "lyred")
        words = [f"{name}={value}" for name, value in build.environment().items()]
        with open(self.lyred, "w", encoding="utf-8") as script:
            script.write(f'#!/bin/sh\nexec env {shlex.join([*words, build.lyred])} "$@"\n')
        os.chmod(self.lyred, 0o755)


def own_versions():
    """The range of the channel that this tree speaks."""
    with open(ABI, encoding="utf-8") as file:
        least, most = re.search(r"kAbiVersions\{(\d+), (\d+)\}", file.read()).groups()
    return int(least), int(most)


def kinds_of(first, preload):
    """The first build as older and newer ones."""
    least, most = own_versions()
    ranges = [(least, least), (least, most + 1), (most + 1, most + 2)]
    return [Build(first, versions, preload) for versions in ranges]


def have_common_version(a, b):
    if a.folder != b.folder:
        return True
    (a_min, a_max), (b_min, b_max) = ((build.versions or own_versions()) for build in (a, b))
    least, most = own_versions()
    return max(a_min, b_min, least) <= min(a_max, b_max, most)


def run(hosts, clients):
    """What the job of the pair ended with: its exit status, and what it said."""
    command = [clients.lyre, "allreduce", "--host", f"A={hosts.a.socket}", "--host",
               f"B={hosts.b.socket}", "--plugin", clients.plugin, "--no-kernel", "--quick"]
    done = processes.run(command, JOB_TIMEOUT_S, capture_output=True,
                         env={**os.environ, "NCCL_DEBUG": "WARN", **clients.environment()})
    return done.returncode, (done.stderr or done.stdout).strip()


def problem_of(hosts, daemons, clients):
    """What is wrong with the pair, or nothing; and what it did."""
    status, said = run(hosts, clients)
    if have_common_version(daemons, clients):
        return ("" if status == 0 else said), "verified"
    if status == 0:
        return "a job without a common version ended well", ""
    return ("" if REFUSED in said else f"nothing says whom to upgrade: {said}"), "refused"


def stored_builds():
    """Releases, one a folder, of the folder that LYRE_TEST_RELEASES names."""
    folder = os.environ.pop("LYRE_TEST_RELEASES", "")
    return sorted(glob.glob(os.path.join(folder, "*", ""))) if folder else []


def run_matrix(builds):
    failures = 0
    for daemons in builds:
        with tempfile.TemporaryDirectory(prefix="lyre-skew-") as folder, \
                TwoHosts(Programs(daemons, folder)) as hosts:
            for clients in builds:
                problem, result = problem_of(hosts, daemons, clients)
                failures += bool(problem)
                print(f"daemons: {daemons}, plugin: {clients}: {problem or result}", flush=True)
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--versions", metavar="LIBRARY",
                        help="channel_versions.so: the first build also as older and newer ones")
    options = parser.parse_args()
    processes.exit_on_signals()
    try:
        builds = [Build(folder) for folder in options.folders + stored_builds()]
        if options.versions:
            builds += kinds_of(options.folders[0], options.versions)
        return 1 if run_matrix(builds) else 0
    except DaemonError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
