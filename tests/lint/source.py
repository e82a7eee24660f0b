"""Reading the tree: which files there are, and C++ without comments and strings."""

import os
import re
from dataclasses import dataclass

import rules


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    message: str

    def __str__(self):
        return f'{self.path}:{self.line}: {self.message}'


def walk(root, top_folders=None):
    """Paths of the sources, relative to the root, sorted. Build folders are left out."""
    found = []
    for folder in top_folders or rules.CODE_FOLDERS:
        for where, folders, files in os.walk(os.path.join(root, folder)):
            folders[:] = [f for f in folders if not f.startswith(('build', '.', '__pycache__'))]
            found += [os.path.relpath(os.path.join(where, name), root) for name in files]
    return sorted(found)


def is_script(root, path):
    if path.endswith(rules.SCRIPT_SUFFIXES):
        return True
    if '.' in os.path.basename(path):
        return False
    with open(os.path.join(root, path), 'rb') as file:
        return file.read(2) == b'#!'


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8', errors='replace') as file:
        return file.read()


def is_under(path, folder):
    return path == folder or path.startswith(folder + '/')


def is_in_any(path, folders):
    return any(is_under(path, folder) for folder in folders)


_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'", re.DOTALL)


def _blank(match):
    return re.sub(r'[^\n]', ' ', match.group())


def strip(text):
    """The same text, line for line, with comments and literals blanked; includes stay."""
    lines = []
    for line in _LITERAL.sub(lambda m: m.group() if _is_include(text, m) else _blank(m),
                             text).split('\n'):
        lines.append(line)
    return '\n'.join(lines)


def _is_include(text, match):
    start = text.rfind('\n', 0, match.start()) + 1
    return re.match(r'\s*#\s*include\s*$', text[start:match.start()]) is not None


def strip_preprocessor(code):
    """Blanks directives with their continuation lines."""
    out = []
    is_continued = False
    for line in code.split('\n'):
        is_directive = is_continued or line.lstrip().startswith('#')
        is_continued = is_directive and line.endswith('\\')
        out.append('' if is_directive else line)
    return '\n'.join(out)
