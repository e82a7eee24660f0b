"""Banned words, each with what to use instead."""

import re

import rules
import source
from source import Finding


def check_lines(path, text, patterns):
    findings = []
    for number, line in enumerate(text.split('\n'), 1):
        for pattern, instead in patterns:
            match = re.search(pattern, line)
            if match:
                findings.append(Finding(path, number,
                                        f"'{match.group().strip()}' is banned here: {instead}"))
    return findings


def patterns_for(path):
    patterns = [(pattern, instead) for pattern, folders, free, instead in rules.BANNED_IN_CODE
                if source.is_in_any(path, folders) and not source.is_in_any(path, free)]
    if path.endswith(('.h', '.hpp')):
        patterns += rules.BANNED_IN_HEADERS
    return patterns


def is_guarded(path, text):
    """Public headers are C, where `#pragma once` is no part of the language."""
    if source.is_under(path, 'libclient/include'):
        return re.search(r'^#ifndef (\w+)\n#define \1$', text, re.MULTILINE) is not None
    return '#pragma once' in text


def check(root):
    findings = []
    for path in source.walk(root):
        is_cpp = path.endswith(rules.CPP_SUFFIXES)
        if not is_cpp and not source.is_script(root, path) and not path.endswith('meson.build'):
            continue
        text = source.read(root, path)
        findings += check_lines(path, text, rules.BANNED_ANYWHERE)
        if is_cpp:
            findings += check_lines(path, source.strip(text), patterns_for(path))
        if path.endswith(('.h', '.hpp')) and not is_guarded(path, text):
            findings.append(Finding(path, 1, "a header starts with '#pragma once'"))
    return findings
