#!/usr/bin/env python3
"""Measures Lyre beside kernel TCP and beside the wire's own limits, in alternating rounds.

Prints a table as it goes and writes bench.json when nothing failed. When everything is measured it
refreshes the figures in docs/user/benchmarks.md, its plot, and docs/dev/benchmarks_log.md. It needs
root, and a machine with nothing else to do: times on a busy one mean nothing, ratios little.
"""

import argparse
import os
import sys

sys.dont_write_bytecode = True
FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(FOLDER))
sys.path[:0] = [os.path.join(ROOT, "tests", name) for name in ("support", "adapter")]

import allreduce
import attacked
import capped
import domains
import faults
import measures
import needs
import processes
import record
import rest
from daemon import DaemonError, Programs
from network import CommandFailed, NetworkError

GROUPS = {**measures.GROUPS, "domains": domains.sharing, **allreduce.GROUPS, **capped.GROUPS,
          **attacked.GROUPS, **faults.GROUPS, "idle": rest.idle}


def arguments():
    names = ", ".join(GROUPS)
    parser = argparse.ArgumentParser(prog="tools/bench", description=__doc__.splitlines()[0],
                                     epilog=f"Groups: {names}.")
    parser.add_argument("--build", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", metavar="NAME", action="append",
                        help="a group, or a row whose name begins so; may be repeated")
    parser.add_argument("--quick", action="store_true", help="two short rounds of each")
    parser.add_argument("--rounds", type=int, help="of each measurement (5)")
    parser.add_argument("--near", metavar="NS", type=int, help="rounds of all-reduces count only "
                        "where a cache line took at most this long between the two cores; others "
                        "are repeated")
    parser.add_argument("--out", default="bench.json", help="where the figures go (bench.json)")
    parser.add_argument("--keep", action="store_true",
                        help="rows that are not measured stay in --out; a ratio may then be "
                        "of rows of two runs")
    parser.add_argument("--docs", metavar="FOLDER", help="refresh user/benchmarks.md and "
                        "dev/benchmarks_log.md in this folder (docs when everything is measured, "
                        "else none)")
    return parser.parse_args()


def main():
    options = arguments()
    processes.exit_on_signals()
    rounds = options.rounds or (2 if options.quick else 5)
    table = record.Table(options.only or [])
    if unknown := table.unknown(GROUPS):
        print(f'bench: --only "{unknown[0]}" is no group or row; groups: {"; ".join(GROUPS)}',
              file=sys.stderr)
        sys.exit(2)
    earlier = record.earlier_rows(options.out) if options.keep else {}
    if lack := needs.missing([name for name in GROUPS if table.wants_group(name)]):
        sys.exit(f"bench: {lack}")
    bench = measures.Bench(Programs(options.build), options.build, rounds,
                           seconds=0.5 if options.quick else 2, table=table,
                           near_ns=options.near)
    docs = options.docs
    if docs is None and not options.only and not options.quick:
        docs = os.path.join(ROOT, "docs")
    try:
        for name, group in GROUPS.items():
            if table.wants_group(name):
                group(bench)
    except (DaemonError, NetworkError, CommandFailed, processes.NoLine,
            measures.Failed) as error:
        sys.exit(f"bench: {error}")
    if not table.rows:
        sys.exit(f"bench: nothing was measured, {options.out} is not written")
    if options.keep:
        table.keep_others(earlier, list(GROUPS))
    table.write_json(options.out)
    if docs:
        table.write_docs(os.path.join(docs, "user/benchmarks.md"),
                         os.path.join(docs, "dev/benchmarks_log.md"))


if __name__ == "__main__":
    main()
