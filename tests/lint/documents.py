"""What documents and comments point to is in the repository."""

import glob
import os
import re

import rules
import source
from source import Finding

_LINK = re.compile(r'\]\(([^)#\s]+)(?:#[^)]*)?\)')
_QUOTED = re.compile(r'`([^`\s]+)`')
_DOCUMENT = re.compile(r'(?<![\w/.<*])((?:\.\./|\w[\w-]*/)*[\w-]+\.md)\b')
# Design notes that were never part of the repository.
_OUTSIDE = re.compile(r'\bDESIGN\b')
# `cc_<name>.{h,cc}` and `cc_*` stand for files of which there must be at least one each.
_PLACEHOLDER = re.compile(r'<[^>]+>|\b(?:NAME|TARGET)\b')
_ALTERNATIVES = re.compile(r'\{([^}]*)\}')
# Other marks: no path, but a command or an example.
_NO_PATH = re.compile(r'[$=:()]')
_SUFFIXES = ('', '.h', '.cc', '.py')


def alternatives(target):
    match = _ALTERNATIVES.search(target)
    if not match:
        return [target]
    return [name for choice in match[1].split(',')
            for name in alternatives(target[:match.start()] + choice + target[match.end():])]


def is_there(root, base, target):
    """Whether there is at least one file or folder for each thing that `target` names."""
    folder = os.path.join(root, base)
    return os.path.exists(os.path.join(folder, target)) or all(
        any(glob.glob(os.path.join(folder, name) + suffix) for suffix in _SUFFIXES)
        for name in alternatives(_PLACEHOLDER.sub('*', target)))


def is_path(text):
    """Whether `text` names a file or a folder of this tree."""
    return text.split('/', 1)[0] in rules.TOP_FOLDERS and '/' in text


def check_markdown(root, path, line):
    folder = os.path.dirname(path)
    for target in _LINK.findall(line):
        if '://' not in target and not target.startswith('mailto:') \
                and not is_there(root, folder, target):
            yield f'the link to {target} leads nowhere'
    for text in _QUOTED.findall(line):
        if is_path(text) and not _NO_PATH.search(text) and not is_there(root, '', text):
            yield f'{text} is not in the repository'


def check_line(root, path, line):
    """The messages about one line of any file."""
    if path.endswith('.md'):
        yield from check_markdown(root, path, line)
    for name in _DOCUMENT.findall(_LINK.sub('', line)):
        if not any(is_there(root, base, name) for base in ('', 'docs', os.path.dirname(path))):
            yield f'{name} is not in the repository'
    if _OUTSIDE.search(line):
        yield 'cites design notes that are not in the repository: say why here'


def check(root):
    findings = []
    pages = [name for name in os.listdir(root) if name.endswith('.md')]
    for path in sorted(pages) + source.walk(root, rules.TOP_FOLDERS):
        if path.startswith('tests/lint/') or not path.endswith(rules.TEXT_SUFFIXES):
            continue
        for number, line in enumerate(source.read(root, path).split('\n'), 1):
            findings += [Finding(path, number, message)
                         for message in dict.fromkeys(check_line(root, path, line))]
    return findings
