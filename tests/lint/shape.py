"""How long lines, functions and files may be, and how many methods a class may have."""

import ast
import collections
import re
from dataclasses import dataclass

import rules
import source
from source import Finding

_CONTROL = re.compile(r'\s*(?:if|for|while|switch|catch|do|else|return|case)\b')
_TYPE = re.compile(r'(?:^|[\s>;])(?:class|struct|union|enum)\b')
_ACCESS = re.compile(r'\s*(?:(?:public|private|protected)\s*:\s*)*')
_SCOPE = re.compile(r'\bnamespace\b|\bextern\b\s*$')
_TYPE_NAME = re.compile(r'\b(?:class|struct|union)\s+(?:alignas\([^)]*\)\s*)?([\w:]+)')
_NO_METHOD = re.compile(r'\s*(?:friend|using|typedef|static_assert)\b|.*=\s*(?:default|delete)\s*$',
                        re.DOTALL)
_NOT_A_NAME = {'alignas', 'decltype', 'noexcept', 'requires', 'explicit'}


@dataclass(frozen=True)
class Scope:
    """A brace pair, or a statement outside of functions that has none."""

    kind: str
    head: str
    first: int
    last: int
    start: int  # where its brace is: names the scope
    parent: tuple  # kind and start of the scope around it


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


def scopes(text):
    """The scopes of `text`, in the order of their ends."""
    code = source.strip_preprocessor(source.strip(text))
    stack = [('namespace', 0, -1, 0)]
    head_start = 0

    def scope(kind, first, brace, end):
        return Scope(kind, code[first:brace], code.count('\n', 0, first) + 1,
                     code.count('\n', 0, end) + 1, brace, (stack[-1][0], stack[-1][2]))

    for match in re.finditer(r'[{};]', code):
        at, mark = match.start(), match.group()
        first = head_start + _ACCESS.match(code[head_start:at]).end()
        if mark == '{':
            stack.append((kind_of(code[head_start:at], stack[-1][0]), first, at, head_start))
            head_start = at + 1
        elif mark == '}' and len(stack) > 1:
            kind, first, brace, outer_head = stack.pop()
            # A member initializer is part of the head of the function that follows it.
            head_start = outer_head if kind == 'initializer' else at + 1
            yield scope(kind, first, brace, at)
        elif mark == ';':
            yield scope('statement', first, at, at)
            head_start = at + 1


def functions(text):
    """(first line, lines) of each function of `text`; lambdas count with what holds them."""
    for scope in scopes(text):
        if scope.kind == 'function':
            yield scope.first, scope.last - scope.first + 1


def method_name(head):
    """The name of the member function that `head` declares; None when it declares none."""
    if _NO_METHOD.match(head):
        return None
    depth = 0
    for match in re.finditer(r'[<>=]|(operator\s*\S+?|~?\w+)\s*\(', head):
        mark = match.group()
        if mark == '=':
            return None
        if mark in '<>':
            depth += 1 if mark == '<' else -1
        elif depth == 0 and match.group(1) not in _NOT_A_NAME:
            return match.group(1)
    return None


def types(text):
    """(first line, name, methods) of each class; constructors, destructors, operators are free."""
    methods = collections.defaultdict(set)
    for scope in scopes(text):
        if scope.kind == 'type':
            found = _TYPE_NAME.search(scope.head)
            name = found.group(1) if found else ''
            yield scope.first, name, methods.pop(scope.start, set()) - {name.split(':')[-1]}
        elif scope.parent[0] == 'type' and scope.kind in ('function', 'statement'):
            name = method_name(scope.head)
            if name and not name.startswith(('operator', '~')):
                methods[scope.parent[1]].add(name)


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
    return findings if is_python else findings + check_types(path, text)


def check_types(path, text):
    return [Finding(path, first, f'{name} has {len(methods)} methods, at most '
                    f'{rules.CLASS_METHODS_MAX}: give its second subject a class')
            for first, name, methods in types(text)
            if len(methods) > rules.CLASS_METHODS_MAX]


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
