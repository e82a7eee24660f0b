"""Which folder may include which."""

import os
import re

import rules
import source
from source import Finding

_INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def folder_of(path):
    """The longest folder of the table that holds `path`, or None."""
    held_by = [folder for folder in rules.INCLUDE_TABLE if source.is_under(path, folder)]
    return max(held_by, key=len, default=None)


def resolve(root, path, target):
    """The file of this tree that `target` means, relative to the root, or None."""
    for base in [''] + rules.INCLUDE_ROOTS + [os.path.dirname(path)]:
        candidate = os.path.normpath(os.path.join(base, target))
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    return None


def check_own(path, target):
    """The message about `path` including `target`, both in this tree, or None."""
    here, there = folder_of(path), folder_of(target)
    if here is None or here == there:
        return None
    allowed = rules.INCLUDE_TABLE[here]
    if there in allowed or target in allowed:
        return None
    names = ', '.join(allowed) if allowed else 'nothing of this project'
    return f'{here} must not include {target}; it may include {names}'


def check_foreign(path, target):
    """The message about `path` including the system header `target`, or None."""
    if folder_of(path) is None:
        return None
    for prefix, folders in rules.LIBRARIES.items():
        if target.startswith(prefix):
            if source.is_in_any(path, folders):
                return None
            return f'<{target}> belongs into {", ".join(folders)} only'
    if '.' not in target and '/' not in target:
        return None
    limits = [f for f in rules.SYSTEM_HEADERS if source.is_under(path, f)]
    if not limits:
        return None
    folder = max(limits, key=len)
    if any(target.startswith(prefix) for prefix in rules.SYSTEM_HEADERS[folder]):
        return None
    return f'{folder} must not include <{target}>: the standard library only'


def check(root):
    findings = []
    for path in source.walk(root):
        if not path.endswith(rules.CPP_SUFFIXES):
            continue
        for number, line in enumerate(source.strip(source.read(root, path)).split('\n'), 1):
            match = _INCLUDE.match(line)
            if not match:
                continue
            own = resolve(root, path, match[2])
            message = check_own(path, own) if own else check_foreign(path, match[2])
            if message:
                findings.append(Finding(path, number, message))
    return findings
