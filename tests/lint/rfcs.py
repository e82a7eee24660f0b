#!/usr/bin/env python3
"""The table in docs/dev/rfcs.md: which test covers which section of an RFC that the stack cites.

`rfcs.py --write` makes it anew from the citations "RFC nnnn x.y" in stack/ and in the tests; the
lint (`lint.py rfcs`) asks that what the table names is there.
"""

import argparse
import os
import re
import sys

import source
from source import Finding

DOCUMENT = 'docs/dev/rfcs.md'
BEGIN, END = '<!-- rfc table -->', '<!-- end of rfc table -->'
NO_TEST = 'no test names it'
PARTS = 'its parts, below'
# Sections that only give things their names.
TERMS = {('RFC 9293', '3.3.1'): 'names of variables'}

# The first number of a section has two digits at most, that of an RFC three at least.
_SECTION = r'(?:\d{1,2}(?!\d)(?:\.\d+)*(?:\.[A-Z])?|[A-Z](?:\.\d+)+)'
_CITED = rf'(?:RFC )?(?:\d{{3,5}} )?{_SECTION}'
_CITATION = re.compile(rf'RFC \d{{3,5}} {_SECTION}(?:(?:, | - | and ){_CITED})*')
_PART = re.compile(rf'(?:(\d{{3,5}}) )?({_SECTION})')
_TEST = re.compile(r'^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)')
_ROW = re.compile(r'^\| (RFC \d+) ([\w.]+) \| (.*) \|$')


def citations(line):
    """(RFC, section) of each section that the line cites."""
    found = []
    for match in _CITATION.finditer(line):
        rfc = ''
        for part in _PART.finditer(match[0]):
            rfc = part[1] or rfc
            found.append(('RFC ' + rfc, part[2]))
    return found


def key_of(cited):
    rfc, section = cited
    return int(rfc[4:]), [(part.isalpha(), int(part) if part.isdigit() else 0, part)
                          for part in section.split('.')]


def cited_by_stack(root):
    return {cited for path in source.walk(root) if path.startswith('stack/')
            for line in source.read(root, path).split('\n') for cited in citations(line)}


def tests_of(text):
    """(first line, last line, Suite.Name) of each test, lines counted from 0."""
    lines = text.split('\n')
    found = []
    for number, line in enumerate(lines):
        match = _TEST.match(line)
        if match:
            last = next((at for at in range(number, len(lines)) if lines[at].startswith('}')),
                        number)
            found.append((number, last, f'{match[1]}.{match[2]}'))
    return found


def owner_of(number, lines, tests):
    """The test that a citation on this line is about: around it, or right below its comment."""
    while number < len(lines) and lines[number].lstrip().startswith('//'):
        number += 1
    for first, last, name in tests:
        if first <= number <= last:
            return name
    return None


def cited_by_tests(root):
    """{(RFC, section): {path: {names}}}; no names: the file as a whole."""
    found = {}
    for path in source.walk(root):
        if not path.startswith('tests/') or not path.endswith('.cc'):
            continue
        text = source.read(root, path)
        lines, tests = text.split('\n'), tests_of(text)
        for number, line in enumerate(lines):
            for cited in citations(line) if tests else []:
                names = found.setdefault(cited, {}).setdefault(path, set())
                owner = owner_of(number, lines, tests)
                if owner:
                    names.add(owner)
    return found


def row(cited, covered):
    entries = [path + (': ' + ', '.join(sorted(names)) if names else '')
               for path, names in sorted(covered.get(cited, {}).items())]
    return f'| {cited[0]} {cited[1]} | {"; ".join(entries) or why_none(cited, covered)} |'


def why_none(cited, covered):
    rfc, section = cited
    if any(other == rfc and part.startswith(section + '.') for other, part in covered):
        return PARTS
    return TERMS.get(cited, NO_TEST)


def table(root):
    covered = cited_by_tests(root)
    cited = sorted(cited_by_stack(root) | set(covered), key=key_of)
    return '\n'.join(['| section | tests |', '|---|---|', *(row(each, covered) for each in cited)])


def check(root):
    """The tests that the table names and that are not there."""
    if not os.path.exists(os.path.join(root, DOCUMENT)):
        return []
    findings = []
    for number, line in enumerate(source.read(root, DOCUMENT).split('\n'), 1):
        match = _ROW.match(line)
        if match and match[3] not in (NO_TEST, PARTS, *TERMS.values()):
            findings += [Finding(DOCUMENT, number, message + '; tests/lint/rfcs.py --write')
                         for message in check_entries(root, match[3])]
    return findings


def check_entries(root, text):
    for entry in text.split('; '):
        path, _, names = entry.partition(': ')
        if not os.path.exists(os.path.join(root, path)):
            yield f'{path} is not there'
            continue
        there = {name for _, _, name in tests_of(source.read(root, path))}
        for name in filter(None, names.split(', ')):
            if name not in there:
                yield f'{path} has no {name}'


def write(root):
    path = os.path.join(root, DOCUMENT)
    with open(path, encoding='utf-8') as file:
        text = file.read()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(f'{before}{BEGIN}\n{table(root)}\n{END}{after}')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--root', default=os.path.join(os.path.dirname(__file__), '..', '..'))
    parser.add_argument('--write', action='store_true')
    options = parser.parse_args()
    root = os.path.abspath(options.root)
    write(root) if options.write else print(table(root))


if __name__ == '__main__':
    sys.exit(main())
