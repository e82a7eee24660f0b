#!/usr/bin/env python3
"""Fuzzes one target and stores the minimised result as its corpus."""

import argparse
import os
import sys
import tempfile

sys.dont_write_bytecode = True

import corpus
import fuzzer

# The limit of the whole packed corpus in the repository, shared by the targets.
PACKED_BYTES_MAX = 24 << 10
INPUT_BYTES_MAX = 1024


def smallest(folder):
    """The inputs, the shortest first."""
    inputs = []
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), 'rb') as file:
            inputs.append(file.read())
    return sorted(inputs, key=lambda data: (len(data), data))


def keep(target, inputs):
    """As many of the inputs as fit into the limit."""
    while True:
        corpus.pack(target, inputs)
        if os.path.getsize(corpus.packed(target)) <= PACKED_BYTES_MAX:
            return len(inputs)
        inputs = inputs[:len(inputs) * 9 // 10]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('build', help='folder of a build with -Dfuzz=true')
    parser.add_argument('target', help='such as segment, for segment_fuzz')
    parser.add_argument('seconds', type=int)
    options = parser.parse_args()
    target = options.target
    program = os.path.join(options.build, 'tests', 'fuzz', target + '_fuzz')
    if not os.path.exists(program):
        parser.error(f'{program} is not there: target or build folder is wrong')
    limit = f'-max_len={INPUT_BYTES_MAX}'
    with tempfile.TemporaryDirectory(prefix='lyre-fuzz-') as grown, \
            tempfile.TemporaryDirectory(prefix='lyre-fuzz-') as minimised:
        corpus.unpack(target, grown)
        status = fuzzer.run(program, grown, options.seconds,
                            os.path.join(os.getcwd(), target + '-'), limit)
        if status == 0 and fuzzer.merge(program, minimised, grown, limit) == 0:
            print(f'{target}: {keep(target, smallest(minimised))} inputs kept of '
                  f'{len(os.listdir(grown))}')
        return status


if __name__ == '__main__':
    sys.exit(main())
