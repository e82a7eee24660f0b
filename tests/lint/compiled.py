"""Checks that need a tool: headers that compile alone, examples in documents, the formatter."""

import concurrent.futures
import hashlib
import os
import re
import shutil
import subprocess

import includes
import rules
import source
from source import Finding

_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


class Skip(Exception):
    """The check cannot run here; the text says why."""


def closure(root, path, seen=None):
    """`path` and all files of this tree that it includes, directly or not."""
    seen = set() if seen is None else seen
    if path in seen:
        return seen
    seen.add(path)
    for target in _INCLUDE.findall(source.read(root, path)):
        own = includes.resolve(root, path, target)
        if own:
            closure(root, own, seen)
    return seen


def fingerprint(root, path, command):
    digest = hashlib.sha256(' '.join(command).encode())
    for name in sorted(closure(root, path)):
        digest.update(name.encode() + b'\0' + source.read(root, name).encode() + b'\0')
    return digest.hexdigest()


def library_flags(root, path):
    """Of DPDK, for a header that includes its headers, directly or not."""
    names_dpdk = any(target.startswith('rte_') for name in closure(root, path)
                     for target in _INCLUDE.findall(source.read(root, name)))
    if not names_dpdk or not shutil.which('pkg-config'):
        return []
    answer = subprocess.run(['pkg-config', '--cflags', 'libdpdk'], capture_output=True, text=True)
    return answer.stdout.split()


def is_compiled_first(root, path):
    """Whether the header's own source begins with it, so that every build compiles it alone."""
    own = path.removesuffix('.h') + '.cc'
    if not os.path.exists(os.path.join(root, own)):
        return False
    first = _INCLUDE.search(source.read(root, own))
    return bool(first) and includes.resolve(root, own, first[1]) == path


def compile_alone(root, path, compiler, cache):
    """The finding about `path`, or None. What passed before and has not changed is not tried."""
    is_c = path.startswith('libclient/include/')
    command = [*compiler, '-x', 'c++', '-std=c++20', '-fsyntax-only', '-I.', '-Wall', '-Wextra',
               *(f'-I{folder}' for folder in rules.INCLUDE_ROOTS), *library_flags(root, path)]
    commands = [command]
    if is_c:  # the public API is C as well
        commands.append([*compiler, '-x', 'c', '-std=c11', '-fsyntax-only', '-I.', '-Wall'])
    stamp = os.path.join(cache, fingerprint(root, path, command)) if cache else None
    if stamp and os.path.exists(stamp):
        return None
    for each in commands:
        run = subprocess.run([*each, '-'], input=f'#include "{path}"\n', cwd=root,
                             capture_output=True, text=True)
        if run.returncode != 0:
            first = next((line for line in run.stderr.split('\n') if 'error' in line), run.stderr)
            return Finding(path, 1, f'does not compile alone: {first.strip()}')
    if stamp:
        with open(stamp, 'w', encoding='utf-8'):
            pass
    return None


def check_headers(root, compiler=None, cache=None):
    compiler = compiler or ['c++']
    if not shutil.which(compiler[0]):
        raise Skip(f'no compiler {compiler[0]}')
    if cache:
        os.makedirs(cache, exist_ok=True)
    headers = [path for path in source.walk(root)
               if path.endswith('.h') and not is_compiled_first(root, path)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda path: compile_alone(root, path, compiler, cache), headers)
        return [finding for finding in results if finding]


def check_example(root, path, first_line, text, compiler):
    """The finding about one C program in a document, or None. It is compiled as a user would."""
    run = subprocess.run([*compiler, '-x', 'c', '-std=c11', '-fsyntax-only', '-Wall', '-Wextra',
                          '-Werror', *(f'-I{folder}' for folder in rules.INCLUDE_ROOTS), '-'],
                         input=text, cwd=root, capture_output=True, text=True)
    if run.returncode == 0:
        return None
    at = re.search(r'^<stdin>:(\d+):(?:\d+:)?(.*)$', run.stderr, re.MULTILINE)
    line, why = (int(at[1]), at[2].strip()) if at else (1, run.stderr.strip())
    return Finding(path, first_line + line - 1, f'the example does not compile: {why}')


def check_examples(root, compiler=None):
    """C programs in documents, in blocks marked ```c."""
    compiler = compiler or ['c++']
    if not shutil.which(compiler[0]):
        raise Skip(f'no compiler {compiler[0]}')
    findings = []
    for path in source.walk(root, ['docs']):
        text = source.read(root, path) if path.endswith('.md') else ''
        for block in re.finditer(r'^```c\n(.*?)^```', text, re.MULTILINE | re.DOTALL):
            first_line = text.count('\n', 0, block.start(1)) + 1
            findings.append(check_example(root, path, first_line, block[1], compiler))
    return [finding for finding in findings if finding]


def formatter():
    """The reference version of clang-format. Raises Skip where there is none."""
    for name in (f'clang-format-{rules.CLANG_FORMAT_MAJOR}', 'clang-format'):
        tool = shutil.which(name)
        if not tool:
            continue
        answer = subprocess.run([tool, '--version'], capture_output=True, text=True).stdout
        version = re.search(r'version (\d+)', answer)
        if version and int(version[1]) == rules.CLANG_FORMAT_MAJOR:
            return tool
    raise Skip(f'no clang-format {rules.CLANG_FORMAT_MAJOR}, which is the reference')


def check_format(root):
    tool = formatter()
    paths = [path for path in source.walk(root) if path.endswith(rules.CPP_SUFFIXES)]
    if not paths:
        return []
    run = subprocess.run([tool, '--dry-run', '--ferror-limit=1', *paths], cwd=root,
                         capture_output=True, text=True)
    found = {}
    for path, line in re.findall(r'^([^:\n]+):(\d+):\d+: (?:warning|error):', run.stderr, re.M):
        found.setdefault(path, Finding(path, int(line), 'run clang-format on this file'))
    return list(found.values())
