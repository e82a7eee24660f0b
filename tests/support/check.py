#!/usr/bin/env python3
"""Builds what the tests need and runs them: see tools/check --help."""

import argparse
import collections
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import network
import processes

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join("build", "check")
SETUP_STAMP = "check-setup.json"
BUILD_TIMEOUT_S = 1800
# Of all builds and their tests together. Each test has a limit of its own: this one ends a meson
# that hangs, with a result, before CI ends everything without one after 90 minutes.
RUN_TIMEOUT_S = 5000
# Of each step when that is used up.
LATE_TIMEOUT_S = 60
STARTED = time.monotonic()
END_PATIENCE_S = 30
# Units and simulator as arm64 programs: by a script of their own, which unpacks the packages that
# they need into this tree. That takes too much time and room for each run on a new machine.
CROSS = os.path.join("tests", "cross", "run")
CROSS_TREE = os.path.join("build", "cross", "sysroot")
CROSS_NEEDS = ("aarch64-linux-gnu-g++", "qemu-aarch64-static")
CROSS_TIMEOUT_S = 7200
LINES_SHOWN = 25
# The first lines of a failure in the output of unittest, googletest and libFuzzer.
SIGNS = ("FAIL: ", "ERROR: ", ": Failure", "Traceback", "error: ")

# The last line of a run.
COUNT_LINE = re.compile(r"^(?P<passed>\d+) passed, \d+ failed(, (?P<skipped>\d+) skipped)?\s*\Z",
                        re.MULTILINE)
SKIP_SIGN = "skipped: "  # begins the line of each skipped test before it
# The summaries of googletest, on stdout, and of unittest, on stderr.
GTEST_SKIPPED = re.compile(r"^\[  PASSED  \] 0 tests\.\n"
                           r"\[  SKIPPED \] (?P<skipped>\d+) tests?, listed below:$", re.MULTILINE)
GTEST_REASON = re.compile(r": Skipped\n(?!\[)(.+)$", re.MULTILINE)
UNITTEST_SKIPPED = re.compile(r"^-+\nRan (?P<run>\d+) tests? in .+\n\n"
                              r"OK \(skipped=(?P<skipped>\d+)\)$", re.MULTILINE)
UNITTEST_REASON = re.compile(r"\.\.\. skipped (['\"])(.*)\1$", re.MULTILINE)
# Of single tests, whatever became of the others.
GTEST_ONE_SKIPPED = re.compile(r"^\[ RUN      \] (?P<name>\S+)\n(?P<said>(?:(?!\[ ).*\n)*)"
                               r"\[  SKIPPED \] (?P=name) \(", re.MULTILINE)
# A line of the description may follow the name.
UNITTEST_ONE_SKIPPED = re.compile(r"^ *\w+ \((?:__main__\.)?(?P<name>[^)]+)\)(?:\n.*| .*)?"
                                  r"\.\.\. skipped (['\"])(?P<reason>.*)\2$", re.MULTILINE)
UNITTEST_SKIPS = re.compile(r"^OK \(.*\bskipped=(\d+)", re.MULTILINE)
NO_REASON = "no reason given"
# How the reason begins of a test that is skipped on every machine: one of a parameterized suite
# whose parameter has nothing of that kind.
NEVER_APPLIES = "does not apply: "

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}


@dataclasses.dataclass(frozen=True)
class Build:
    """One way to compile the tree, and the suites that run on it. Without suites: all of them."""

    name: str
    setup: tuple = ()
    suites: tuple = ()
    environment: tuple = ()
    wrapper: tuple = ()
    needs: str = ""
    timeout_factor: int = 1  # of the limits of its tests
    timeout_s: int = RUN_TIMEOUT_S  # of all its tests


NORMAL = ("-Doptimization=2", "-Ddebug=false")
# Line numbers are what a report needs; more debug information costs a third of the time. Ten
# sources at a time are compiled as one: the headers that they share are instrumented once.
SANITIZED = ("-Doptimization=1", "-Ddebug=true", "-Dcpp_args=-g1", "-Dunity=on", "-Dunity_size=10")


def cached(compiler):
    """meson looks for ccache by itself only where no compiler is named."""
    return f"ccache {compiler}" if shutil.which("ccache") else compiler


FULL = (
    Build("normal", NORMAL),
    # One build serves the suites under ASan and UBSan and the fuzzers, which need clang anyway.
    Build("asan", (*SANITIZED, "-Dfuzz=true", "-Db_sanitize=address,undefined"),
          ("unit", "sim", "conformance", "fuzz-smoke"),
          (("CC", cached("clang")), ("CXX", cached("clang++"))), needs="clang", timeout_factor=4),
    # TSan needs a known address layout: no randomization.
    Build("tsan", (*SANITIZED, "-Db_sanitize=thread"), ("tsan",),
          (("TSAN_OPTIONS", "halt_on_error=1"),), ("setarch", "-R"), timeout_factor=8),
)
QUICK = (Build("normal", NORMAL, ("lint", "unit", "sim", "conformance")),)


class Count:
    """The results of the tests of all builds."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.reasons = []

    def fail(self, what):
        self.failed += 1
        print(f"FAILED: {what}", flush=True)

    def skip(self, what, reason):
        self.skipped += 1
        self.reasons.append(f"{SKIP_SIGN}{what}: {reason}")

    def line(self):
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {self.skipped} skipped" if self.skipped else text


def time_left(limit):
    """The seconds that a step may take which alone may take `limit`."""
    return max(LATE_TIMEOUT_S, min(limit, RUN_TIMEOUT_S - (time.monotonic() - STARTED)))


def tail(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return "".join("    " + line for line in file.readlines()[-LINES_SHOWN:])


def first_and_last(lines):
    """The first error of an output, and its last lines."""
    first = next((i for i, line in enumerate(lines) if any(sign in line for sign in SIGNS)), 0)
    end = first + LINES_SHOWN if first else 0
    return lines[first:end] + lines[max(end, len(lines) - LINES_SHOWN):]


def errors(path):
    """The errors of a build, without the lines about what was built."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line for line in file if "error: " in line or line.startswith("FAILED: ")]
    return "".join("    " + line for line in lines[:LINES_SHOWN]) or tail(path)


def logged(command, log_path, timeout_s, environment):
    with open(log_path, "a", encoding="utf-8") as log:
        process = processes.start(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                  env=environment)
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            log.write(f"did not end within {timeout_s:.0f} s\n")
            return 1
        finally:
            # Asked first: ninja and meson end what they have started themselves.
            processes.end(process, END_PATIENCE_S)


def introspect(folder, what):
    done = processes.run(["meson", "introspect", what, folder], BUILD_TIMEOUT_S,
                         capture_output=True)
    return json.loads(done.stdout)


def in_suites(test, suites):
    """meson calls a suite "lyre:unit"."""
    own = {suite.rsplit(":", 1)[-1] for suite in test["suite"]}
    return not suites or bool(own & set(suites))


def wanted_targets(folder, suites):
    """Files that ninja has to make for the tests of the suites. An empty list: all files."""
    if not suites:
        return []
    needed = {target for test in introspect(folder, "--tests") if in_suites(test, suites)
              for target in test["depends"]}
    made = [target for target in introspect(folder, "--targets") if target["id"] in needed]
    top = os.path.abspath(folder)
    return [os.path.relpath(path, top) for target in made for path in target["filename"]]


def environment_of(build, scratch):
    # DPDK leaves its folders where this points to.
    return dict(os.environ, RUNTIME_DIRECTORY=scratch, **dict(build.environment))


def setup_text(build):
    return json.dumps([build.setup, build.environment])


def is_configured(build, folder):
    """Whether the folder was configured with the present options of the build."""
    try:
        with open(os.path.join(folder, SETUP_STAMP), encoding="utf-8") as stamp:
            return stamp.read() == setup_text(build)
    except OSError:
        return False


def configure_and_compile(build, folder, environment, count):
    """Whether the tests of the build can run."""
    log = folder + ".build.log"
    if os.path.exists(log):
        os.unlink(log)
    if not is_configured(build, folder):
        shutil.rmtree(folder, ignore_errors=True)
        setup = ["meson", "setup", folder, "-Dtests=enabled", "-Dwerror=true", *build.setup]
        if logged(setup, log, time_left(BUILD_TIMEOUT_S), environment) != 0:
            count.fail(f"{build.name}: meson setup, all of it in {log}")
            print(tail(log), flush=True)
            return False
        with open(os.path.join(folder, SETUP_STAMP), "w", encoding="utf-8") as stamp:
            stamp.write(setup_text(build))
    # Tests may have come or gone; introspection shows it once the build files are fresh.
    code = logged(["ninja", "-C", folder, "build.ninja"], log, time_left(BUILD_TIMEOUT_S),
                  environment)
    if code == 0:
        targets = wanted_targets(folder, build.suites)
        if build.suites and not targets and "lint" not in build.suites:
            count.fail(f"{build.name}: no test in suite {' or '.join(build.suites)}")
            return False
        code = logged(["ninja", "-C", folder, "-k", "20", *targets], log,
                      time_left(BUILD_TIMEOUT_S), environment)
    if code != 0:
        count.fail(f"{build.name}: the build, all of it in {log}")
        print(errors(log), flush=True)
        return False
    return True


def first_reason(test):
    """The reason of a skipped test: the last line that it wrote."""
    lines = (test.get("stdout", "") + test.get("stderr", "")).strip().splitlines()
    return lines[-1] if lines else NO_REASON


def gtest_skip(text):
    """The reason of a googletest program that skipped all of its tests; else None."""
    found = GTEST_SKIPPED.search(text)
    if found is None:
        return None
    reason = GTEST_REASON.search(text)
    return f"all tests ({found['skipped']})" + (f": {reason[1]}" if reason else "")


def unittest_skip(text):
    """The reason of a unittest program that skipped all of its tests; else None. The two numbers do
    not suffice: tests of a skipped class do not count as run, and each skipped subtest counts."""
    found = UNITTEST_SKIPPED.search(text)
    if found is None or int(found["skipped"]) < int(found["run"]):
        return None
    said = text[:found.start()].strip()
    reasons = UNITTEST_REASON.findall(said)
    # A letter for each result or, if verbose, a line.
    is_brief = re.fullmatch("s+", said) is not None
    has_passed = re.search("ok$", said, re.MULTILINE) is not None
    if not is_brief and (has_passed or len(reasons) != int(found["skipped"])):
        return None
    return f"all tests ({found['skipped']})" + (f": {reasons[0][1]}" if reasons else "")


def gtest_skips(text):
    """Name and reason of each test that googletest skipped."""
    reasons = ((found["name"], GTEST_REASON.search(found["said"]))
               for found in GTEST_ONE_SKIPPED.finditer(text))
    return [(name, reason[1] if reason else NO_REASON) for name, reason in reasons]


def unittest_skips(text):
    """The same of unittest, which names them only if it is verbose."""
    named = [(found["name"], found["reason"]) for found in UNITTEST_ONE_SKIPPED.finditer(text)]
    total = UNITTEST_SKIPS.search(text)
    return named + [("one test", NO_REASON)] * (int(total[1]) - len(named) if total else 0)


def skips_of_some(test):
    """What a program has skipped of whose tests others passed, and why; None: nothing."""
    skipped = gtest_skips(test.get("stdout", "")) + unittest_skips(test.get("stderr", ""))
    skipped = [(name, reason) for name, reason in skipped if not reason.startswith(NEVER_APPLIES)]
    if not skipped:
        return None
    what = skipped[0][0] if len(skipped) == 1 else f"{len(skipped)} tests"
    return f"{what}: {'; '.join(dict.fromkeys(reason for _, reason in skipped))}"


def skip_of_all(test):
    """Why a program that ended well tested nothing; None where one of its tests ran."""
    return gtest_skip(test.get("stdout", "")) or unittest_skip(test.get("stderr", ""))


def read_results(path):
    """What meson wrote of each test. A meson that was killed leaves half a line."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def name_of(test):
    """meson writes "lyre:unit / name" where there are several suites."""
    return test["name"].rsplit(" / ", 1)[-1]


def count_test(build, test, count):
    name = f"{build.name}: {test['name']}"
    skip = skip_of_all(test) if test["result"] in PASSED else None
    if skip is not None:
        count.skip(name, skip)
    elif test["result"] in PASSED:
        count.passed += 1
        if (some := skips_of_some(test)) is not None:
            count.skip(name, some)
    elif test["result"] in SKIPPED:
        count.skip(name, first_reason(test))
    else:
        count.fail(f"{name} ({test['result']}, {test['duration']:.1f} s)")
        said = (test.get("stdout", "") + test.get("stderr", "")).splitlines()
        print("\n".join("    " + line for line in first_and_last(said)), flush=True)


def count_results(build, folder, count, wanted, status):
    """`wanted`: the names of the tests. `status`: that of meson, which also ends badly for a failed
    test."""
    passed_before, failed_before = count.passed, count.failed
    try:
        tests = read_results(os.path.join(folder, "meson-logs", "testlog.json"))
    except OSError:
        count.fail(f"{build.name}: meson test left no log")
        return
    for test in tests:
        count_test(build, test, count)
    if not wanted:
        count.fail(f"{build.name}: there is no test")
    missing = collections.Counter(wanted) - collections.Counter(map(name_of, tests))
    for name in sorted(missing.elements()):
        count.fail(f"{build.name}: {name} has no result")
    if status != 0 and count.failed == failed_before:
        count.fail(f"{build.name}: meson test ended with status {status}")
    print(f"check: {build.name}: {count.passed - passed_before} passed, "
          f"{count.failed - failed_before} failed", flush=True)


def run_tests(build, folder, environment, count, names=()):
    """`names`: of those tests that are wanted; without any, all of the suites."""
    log = folder + ".test.log"
    json_log = os.path.join(folder, "meson-logs", "testlog.json")
    for stale in (log, json_log):
        if os.path.exists(stale):
            os.unlink(stale)
    command = ["meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs",
               "--timeout-multiplier", str(build.timeout_factor)]
    for suite in build.suites:
        command += ["--suite", suite]
    command += names
    wrapper = build.wrapper
    if wrapper and processes.run([*wrapper, "true"], 10, capture_output=True).returncode != 0:
        wrapper = ()
    wanted = [test["name"] for test in introspect(folder, "--tests")
              if in_suites(test, build.suites) and (not names or test["name"] in names)]
    status = logged([*wrapper, *command], log, build.timeout_s, environment)
    count_results(build, folder, count, wanted, status)


def check(build, environment, count):
    if build.needs and shutil.which(build.needs) is None:
        count.skip(build.name, f"{build.needs} is not installed")
        return
    started = time.monotonic()
    folder = os.path.join(FOLDER, build.name)
    print(f"check: {build.name}: building", flush=True)
    if not configure_and_compile(build, folder, environment, count):
        return
    print(f"check: {build.name}: testing after {time.monotonic() - started:.0f} s", flush=True)
    run_tests(dataclasses.replace(build, timeout_s=time_left(build.timeout_s)), folder, environment,
              count)


def count_arm64(said, count):
    """Counts what CROSS said of its tests. Returns its last line, or None where there is none."""
    result = COUNT_LINE.search(said)
    if result is None:
        return None
    count.passed += int(result["passed"])
    count.skipped += int(result["skipped"] or 0)
    count.reasons += [line for line in said.splitlines() if line.startswith(SKIP_SIGN)]
    return result[0].strip()


def check_arm64(count):
    """The tests that run as arm64 programs, where the packages that they need are there."""
    if not os.path.isdir(CROSS_TREE) or not all(shutil.which(each) for each in CROSS_NEEDS):
        count.skip("arm64", f"no arm64 packages in {CROSS_TREE}: {CROSS} puts them there")
        return
    print("check: arm64: building and testing", flush=True)
    log = os.path.join(FOLDER, "arm64.log")
    if os.path.exists(log):
        os.unlink(log)
    code = logged([CROSS], log, CROSS_TIMEOUT_S, os.environ)
    with open(log, encoding="utf-8", errors="replace") as file:
        result = count_arm64(file.read(), count)
    if code != 0 or result is None:
        count.fail(f"arm64: {CROSS}, all of it in {log}")
        print(tail(log), flush=True)
    if result is not None:
        print(f"check: arm64: {result}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    is_quick = parser.parse_args().quick
    processes.exit_on_signals()
    os.chdir(ROOT)
    os.makedirs(FOLDER, exist_ok=True)
    network.remove_left_namespaces()
    count = Count()
    with tempfile.TemporaryDirectory(prefix="lyre-check-") as scratch:
        for build in QUICK if is_quick else FULL:
            check(build, environment_of(build, scratch), count)
        if not is_quick:
            check_arm64(count)
    for reason in count.reasons:
        print(reason)
    print(count.line())
    return 1 if count.failed or not count.passed else 0


if __name__ == "__main__":
    sys.exit(main())
