#!/usr/bin/env python3
"""The table of limits in SECURITY.md is the code's: tests/lint/limits_table.cc.

usage: limits.py TABLE_PROGRAM [--root FOLDER] [--write]

TABLE_PROGRAM prints the table. --write puts it into the document.
"""

import argparse
import os
import subprocess
import sys

DOCUMENT = 'SECURITY.md'
BEGIN, END = '<!-- limits -->', '<!-- /limits -->'
EXIT_SKIPPED = 77


def with_table(text, table):
    """The document with this table between the marks; None when it has no marks."""
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        return None
    return text[:begin] + BEGIN + '\n' + table + text[end:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('program')
    parser.add_argument('--root', default=os.path.join(os.path.dirname(__file__), '..', '..'))
    parser.add_argument('--write', action='store_true')
    options = parser.parse_args()
    path = os.path.join(options.root, DOCUMENT)
    if not os.path.exists(path):
        print(f'skipped: there is no {DOCUMENT}')
        return EXIT_SKIPPED
    table = subprocess.run([options.program], check=True, capture_output=True, text=True).stdout
    with open(path, encoding='utf-8') as file:
        text = file.read()
    wanted = with_table(text, table)
    if wanted is None:
        print(f'{DOCUMENT}:1: no table of limits between {BEGIN} and {END}')
        return 1
    if options.write:
        with open(path, 'w', encoding='utf-8') as file:
            file.write(wanted)
        return 0
    if wanted == text:
        return 0
    line = text[:text.find(BEGIN)].count('\n') + 1
    print(f'{DOCUMENT}:{line}: the table of limits is not that of tests/lint/limits_table.cc: '
          f'tests/lint/limits.py {os.path.relpath(options.program)} --write')
    return 1


if __name__ == '__main__':
    sys.exit(main())
