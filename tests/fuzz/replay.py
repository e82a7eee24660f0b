#!/usr/bin/env python3
"""Runs the corpus of one target through its checks, without a fuzzer: any compiler builds that.

usage: replay.py PROGRAM TARGET
"""

import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import corpus


def main():
    program, target = sys.argv[1], sys.argv[2]
    with tempfile.TemporaryDirectory(prefix='lyre-fuzz-') as folder:
        paths = corpus.unpack(target, folder)
        return subprocess.run([program, target, *paths], check=False).returncode


if __name__ == '__main__':
    sys.exit(main())
