#!/usr/bin/env python3
"""Runs one fuzzer for a few seconds from its corpus and from every input that once broke it.

usage: smoke.py FUZZER TARGET SECONDS
"""

import os
import sys
import tempfile

sys.dont_write_bytecode = True

import corpus
import fuzzer


def main():
    program, target, duration_s = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with tempfile.TemporaryDirectory(prefix='lyre-fuzz-') as folder:
        corpus.unpack(target, folder)
        return fuzzer.run(program, folder, duration_s, os.path.join(os.getcwd(), target + '-'))


if __name__ == '__main__':
    sys.exit(main())
