#!/usr/bin/env python3
"""Style as a test: prints `path:line: message` for each breach and exits 1 when there is one.

Exit 77 means that the check cannot run here; the reason is printed.
"""

import argparse
import os
import sys

import compiled
import documents
import includes
import messages
import rfcs
import shape
import words

EXIT_SKIPPED = 77


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('check',
                        choices=['includes', 'words', 'shape', 'headers', 'format', 'rfcs',
                                 'documents', 'examples', 'messages'])
    parser.add_argument('--root', default=os.path.join(os.path.dirname(__file__), '..', '..'))
    parser.add_argument('--cache', help='folder that remembers which headers have passed')
    parser.add_argument('--compiler', nargs='+', help='the compiler, for `headers` and `examples`')
    options = parser.parse_args()
    root = os.path.abspath(options.root)
    checks = {
        'includes': lambda: includes.check(root),
        'words': lambda: words.check(root),
        'shape': lambda: shape.check(root),
        'headers': lambda: compiled.check_headers(root, options.compiler, options.cache),
        'rfcs': lambda: rfcs.check(root),
        'documents': lambda: documents.check(root),
        'examples': lambda: compiled.check_examples(root, options.compiler),
        'messages': lambda: messages.check(root),
        'format': lambda: compiled.check_format(root),
    }
    try:
        findings = checks[options.check]()
    except compiled.Skip as reason:
        print(f'skipped: {reason}')
        return EXIT_SKIPPED
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == '__main__':
    sys.exit(main())
