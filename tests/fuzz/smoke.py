#!/usr/bin/env python3
"""Runs one fuzzer for a few seconds from its seeds and from every input that once broke it.

usage: smoke.py FUZZER TARGET SECONDS
"""

import os
import subprocess
import sys
import tempfile

import seeds


def main():
    fuzzer, target, duration_s = sys.argv[1], sys.argv[2], sys.argv[3]
    regressions = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'regressions', target)
    environment = {**os.environ, 'UBSAN_OPTIONS': 'halt_on_error=1:print_stacktrace=1'}
    with tempfile.TemporaryDirectory(prefix='lyre-fuzz-') as folder:
        corpus = os.path.join(folder, 'corpus')
        os.mkdir(corpus)
        for number, data in enumerate(seeds.seeds(target)):
            with open(os.path.join(corpus, f'seed-{number}'), 'wb') as file:
                file.write(data)
        folders = [corpus] + ([regressions] if os.path.isdir(regressions) else [])
        return subprocess.run([fuzzer, f'-max_total_time={duration_s}', '-timeout=10',
                               '-len_control=0', '-rss_limit_mb=1024', '-print_final_stats=1',
                               f'-artifact_prefix={os.getcwd()}/{target}-', *folders],
                              env=environment, check=False).returncode


if __name__ == '__main__':
    sys.exit(main())
