"""Runs a fuzzer."""

import os
import subprocess

TIMEOUT = '-timeout=60'  # of an input: a busy machine may stop a fuzzer for a while
ENVIRONMENT = {'UBSAN_OPTIONS': 'halt_on_error=1:print_stacktrace=1'}


def run(program, folder, duration_s, artifact_prefix, *more):
    """Grows the corpus in `folder`; the exit status is 0 when nothing was found."""
    return subprocess.run([program, f'-max_total_time={duration_s}', TIMEOUT, '-len_control=0',
                           '-rss_limit_mb=1024', '-print_final_stats=1',
                           f'-artifact_prefix={artifact_prefix}', *more, folder],
                          env={**os.environ, **ENVIRONMENT}, check=False).returncode


def merge(program, into, folder, *more):
    """Copies to `into` the smallest inputs of `folder` with the same coverage."""
    return subprocess.run([program, '-merge=1', TIMEOUT, '-rss_limit_mb=1024', *more, into,
                           folder], env={**os.environ, **ENVIRONMENT}, check=False,
                          capture_output=True).returncode
