"""How long lines, functions and files may be."""

import ast
import re

import rules
import source
from source import Finding

_CONTROL = re.compile(r'\s*(?:if|for|while|switch|catch|do|else|return|case)\b')
_TYPE = re.compile(r'(?:^|[\s>;])(?:class|struct|union|enum)\b')
_ACCESS = re.compile(r'\s*(?:(?:public|private|protected)\s*:\s*)*')
_SCOPE = re.compile(r'\bnamespace\b|\bextern\b\s*$')


def kind_of(head, enclosing):
    """What the brace after `head` opens: a namespace, type, function, block or initializer."""
    before = head.rstrip()
    if head == before and before[-1:].isidentifier() or before[-1:] in ('=', ',', '(', '>'):
        return 'initializer'
    if enclosing in ('function', 'block'):
        return 'block'
    if _SCOPE.search(before):
        return 'namespace'
    if '(' in before and not _CONTROL.match(before):
        return 'function'
    return 'type' if _TYPE.search(before) else 'namespace'


def functions(text):
    """(first line, lines) of each function of `text`; lambdas count with what holds them."""
    code = source.strip_preprocessor(source.strip(text))
    stack = []
    head_start = 0

    def line_of(at):
        return code.count('\n', 0, at) + 1

    for match in re.finditer(r'[{};]', code):
        at, mark = match.start(), match.group()
        if mark == '{':
            kind = kind_of(code[head_start:at], stack[-1][0] if stack else 'namespace')
            first = head_start + _ACCESS.match(code[head_start:at]).end()
            stack.append((kind, first, head_start))
            head_start = at + 1
        elif mark == '}' and stack:
            kind, first, outer_head = stack.pop()
            # A member initializer is part of the head of the function that follows it.
            head_start = outer_head if kind == 'initializer' else at + 1
            if kind == 'function':
                yield line_of(first), line_of(at) - line_of(first) + 1
        elif mark == ';':
            head_start = at + 1


def python_functions(text):
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        yield error.lineno or 1, rules.FUNCTION_LINES_MAX + 1
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


def check_text(path, text, is_python):
    findings = []
    lines = text.split('\n')
    if len(lines) - 1 > rules.FILE_LINES_MAX:
        findings.append(Finding(path, len(lines) - 1, f'file has {len(lines) - 1} lines, at most '
                                f'{rules.FILE_LINES_MAX}: give its second subject a file'))
    for number, line in enumerate(lines, 1):
        if len(line) > rules.LINE_COLUMNS_MAX:
            findings.append(Finding(path, number, f'line has {len(line)} columns, at most '
                                    f'{rules.LINE_COLUMNS_MAX}'))
    for first, count in python_functions(text) if is_python else functions(text):
        if count > rules.FUNCTION_LINES_MAX:
            findings.append(Finding(path, first, f'function has {count} lines, at most '
                                    f'{rules.FUNCTION_LINES_MAX}: name its steps'))
    return findings


def check(root):
    findings = []
    for path in source.walk(root):
        is_cpp = path.endswith(rules.CPP_SUFFIXES)
        if not is_cpp and not source.is_script(root, path):
            continue
        text = source.read(root, path)
        is_python = path.endswith('.py') or text.split('\n', 1)[0].find('python') > 0
        if is_cpp or is_python:
            findings += check_text(path, text, is_python)
        elif text.count('\n') > rules.FILE_LINES_MAX:
            findings.append(Finding(path, rules.FILE_LINES_MAX, 'file is too long'))
    return findings
