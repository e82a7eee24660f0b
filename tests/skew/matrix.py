#!/usr/bin/env python3
"""Runs the NCCL plugin of each build on the daemons of every other build.

A build is a build folder, or a folder into which the packages of a release were extracted with
`dpkg-deb -x`. Every pair has to finish a verified all-reduce.
"""

import argparse
import glob
import os
import sys

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


class Build:
    """Programs and plugin of one version."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.lyred, self.lyre, self.plugin = (self._find(name) for name in PLACES)

    def _find(self, name):
        for place in PLACES[name]:
            found = glob.glob(os.path.join(self.folder, place))
            if found:
                return found[0]
        raise DaemonError(f"{self.folder} has no {name}")


def run(hosts, daemons, clients):
    """What is wrong with the pair, or nothing."""
    command = [daemons.lyre, "allreduce", "--host", f"A={hosts.a.socket}", "--host",
               f"B={hosts.b.socket}", "--plugin", clients.plugin, "--no-kernel", "--quick"]
    done = processes.run(command, JOB_TIMEOUT_S, capture_output=True)
    return "" if done.returncode == 0 else (done.stderr or done.stdout).strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    options = parser.parse_args()
    processes.exit_on_signals()
    failures = 0
    try:
        builds = [Build(folder) for folder in options.folders]
        for daemons in builds:
            with TwoHosts(daemons) as hosts:
                for clients in builds:
                    problem = run(hosts, daemons, clients)
                    failures += bool(problem)
                    print(f"daemons of {daemons.folder}, plugin of {clients.folder}: "
                          f"{problem or 'verified'}", flush=True)
    except DaemonError as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
