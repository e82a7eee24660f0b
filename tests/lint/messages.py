"""What the daemon warns of is in the table of log lines, with what an operator does about it."""

import os
import re

import source
from source import Finding

TABLE = 'docs/user/operations.md'
HEADING = '## What log lines ask for'

_CALL = re.compile(r'spdlog::(?:warn|error|critical)\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
# What stands for a value: in the code, and in the table.
_VALUE = re.compile(r'\{[^}]*\}')
_NAME = re.compile(r"\.\.\.|\b[A-Z]+\b")
_QUOTED = re.compile(r'``(.+?)``|`([^`]+)`')
# Less could stand in any line.
_CHARACTERS_MIN = 5


def longest(pieces):
    return max((piece.strip(" :'") for piece in pieces), key=len)


def table_lines(text):
    """The samples in the first column of the table."""
    part = text.partition(HEADING)[2].partition('\n## ')[0]
    return [first or second for row in part.split('\n') if row.startswith('| ')
            for first, second in _QUOTED.findall(row.split(' | ')[0])]


def is_in_table(message, samples):
    words = longest(_VALUE.split(message))
    return any(words in sample or
               len(longest(_NAME.split(sample))) >= _CHARACTERS_MIN and
               longest(_NAME.split(sample)) in message for sample in samples)


def check(root):
    if not os.path.exists(os.path.join(root, TABLE)):
        return [Finding(TABLE, 1, 'is missing')]
    samples = table_lines(source.read(root, TABLE))
    findings = []
    for path in source.walk(root, ['daemon']):
        if not path.endswith('.cc'):
            continue
        text = source.read(root, path)
        for call in _CALL.finditer(text):
            message = ''.join(_STRING.findall(call[1])).replace('\\"', '"')
            # A text that is made elsewhere: the configuration's, for example.
            if len(longest(_VALUE.split(message))) < _CHARACTERS_MIN:
                continue
            if not is_in_table(message, samples):
                line = text.count('\n', 0, call.start()) + 1
                findings.append(Finding(path, line, f'"{message}" has no row in {TABLE}: '
                                                    f'"{HEADING.strip("# ")}"'))
    return findings
