#!/usr/bin/env python3
"""The lint refuses what it must and lets pass what it may: each rule against a bad sample."""

import os
import subprocess
import sys
import tempfile
import unittest

import compiled
import documents
import includes
import messages
import rfcs
import rules
import shape
import words

HEADER = '#pragma once\n'


class Tree:
    """A small project in a folder that goes away."""

    def __init__(self, files):
        self.folder = tempfile.TemporaryDirectory(prefix='lyre-lint-')
        self.root = self.folder.name
        for path, text in files.items():
            full = os.path.join(self.root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, 'w', encoding='utf-8') as file:
                file.write(text)

    def __enter__(self):
        return self.root

    def __exit__(self, *_):
        self.folder.cleanup()


LINT = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'lint.py')


def run_lint(check, root):
    return subprocess.run([sys.executable, LINT, check, '--root', root], capture_output=True,
                          text=True, check=False)


class Lint(unittest.TestCase):
    def places(self, check, files):
        with Tree(files) as root:
            return [(finding.path, finding.line) for finding in check(root)]

    def test_the_rfc_table_is_made_of_citations(self):
        files = {'stack/tcp/a.cc': '// RFC 9293 3.4, 3.5: both\n// RFC 6298 5.4 and 5.5\n',
                 'tests/a_test.cc': '// RFC 6298 5.4: why\nTEST(A, B) {\n  // RFC 9293 3.4\n}\n'}
        with Tree(files) as root:
            self.assertEqual(rfcs.table(root).split('\n')[2:],
                             ['| RFC 6298 5.4 | tests/a_test.cc: A.B |',
                              f'| RFC 6298 5.5 | {rfcs.NO_TEST} |',
                              '| RFC 9293 3.4 | tests/a_test.cc: A.B |',
                              f'| RFC 9293 3.5 | {rfcs.NO_TEST} |'])

    def test_one_citation_may_name_several_rfcs(self):
        self.assertEqual(rfcs.citations('// RFC 7661 4.3 and 9438 5.8, 5.9; RFC 793 3.10 - 3.12'),
                         [('RFC 7661', '4.3'), ('RFC 9438', '5.8'), ('RFC 9438', '5.9'),
                          ('RFC 793', '3.10'), ('RFC 793', '3.12')])

    def test_the_rfc_table_says_why_a_section_has_no_test(self):
        files = {'stack/tcp/a.cc': '// RFC 9293 3.10.7, 3.3.1\n',
                 'tests/a_test.cc': 'TEST(A, B) {  // RFC 9293 3.10.7.4\n}\n'}
        with Tree(files) as root:
            self.assertEqual(rfcs.table(root).split('\n')[2:4],
                             [f"| RFC 9293 3.3.1 | {rfcs.TERMS['RFC 9293', '3.3.1']} |",
                              f'| RFC 9293 3.10.7 | {rfcs.PARTS} |'])

    def test_the_rfc_table_names_only_tests_that_exist(self):
        table = '| RFC 1 2 | tests/a_test.cc: A.B |\n| RFC 1 3 | tests/a_test.cc: A.C |\n'
        files = {'docs/dev/rfcs.md': table, 'tests/a_test.cc': 'TEST(A, B) {\n}\n'}
        self.assertEqual(self.places(rfcs.check, files), [('docs/dev/rfcs.md', 2)])

    def test_documents_point_to_what_is_there(self):
        text = ('[a](b.md), [c](gone.md#part), [d](https://a.b/c.md)\n'
                '`stack/tcp/cc_<name>.cc`, `stack/tcp/{ack,loss}.cc`, `stack/tcp/ack`\n'
                '`stack/tcp/cc_<name>.h`\n`stack/tcp/{ack,gone}.cc`\n')
        files = {'docs/a.md': text, 'docs/b.md': '', 'stack/tcp/cc_x.cc': '// docs/b.md, b.md\n',
                 'stack/tcp/ack.cc': '// NOTES.md\n', 'stack/tcp/loss.cc': '// DES' + 'IGN 4\n'}
        self.assertEqual(self.places(documents.check, files),
                         [('docs/a.md', 1), ('docs/a.md', 3), ('docs/a.md', 4),
                          ('stack/tcp/ack.cc', 1), ('stack/tcp/loss.cc', 1)])

    def test_what_the_daemon_warns_of_has_a_row(self):
        table = (messages.HEADING + '\n\n| line contains | do |\n|---|---|\n'
                 '| `port X: no link yet`, `no group \'...\'` | look |\n\n## Next\n\n'
                 '| `a worker hangs` | of another table |\n')
        code = ('spdlog::warn("port {}: no "\n"link yet", name);\n'
                'spdlog::warn("{}: no group \'{}\'", a, b);\nspdlog::error("{}", text);\n'
                'spdlog::info("a worker rests");\nspdlog::critical(\n"a worker hangs");\n')
        self.assertEqual(self.places(messages.check, {messages.TABLE: table, 'daemon/a.cc': code}),
                         [('daemon/a.cc', 6)])
        self.assertEqual(self.places(messages.check, {'daemon/a.cc': code}), [(messages.TABLE, 1)])

    def test_a_layer_may_not_look_up(self):
        files = {'stack/base/a.h': HEADER + '#include "stack/tcp/b.h"\n', 'stack/tcp/b.h': HEADER}
        self.assertEqual(self.places(includes.check, files), [('stack/base/a.h', 2)])

    def test_a_layer_may_look_down(self):
        files = {'stack/tcp/a.h': HEADER + '#include "stack/base/b.h"\n#include <array>\n',
                 'stack/base/b.h': HEADER}
        self.assertEqual(self.places(includes.check, files), [])

    def test_one_header_of_a_folder_may_be_allowed(self):
        text = HEADER + '#include "stack/io/packet.h"\n#include "stack/io/packet_io.h"\n'
        files = {'stack/ip/a.h': text, 'stack/io/packet.h': HEADER, 'stack/io/packet_io.h': HEADER}
        self.assertEqual(self.places(includes.check, files), [('stack/ip/a.h', 3)])

    def test_a_subfolder_is_not_its_parent(self):
        files = {'stack/io/a.h': HEADER + '#include "stack/io/dpdk/b.h"\n',
                 'stack/io/dpdk/b.h': HEADER}
        self.assertEqual(self.places(includes.check, files), [('stack/io/a.h', 2)])

    def test_the_public_header_is_found_by_its_public_name(self):
        files = {'libclient/include/lyre/lyre.h': HEADER,
                 'stack/tcp/a.cc': '#include "lyre/lyre.h"\n',
                 'tools/b.cc': '#include <lyre/lyre.h>\n'}
        self.assertEqual(self.places(includes.check, files), [('stack/tcp/a.cc', 1)])

    def test_libraries_stay_in_their_folders(self):
        files = {'stack/io/dpdk/a.cc': '#include <rte_mbuf.h>\n',
                 'daemon/b.cc': '#include <rte_eal.h>\n',
                 'libclient/c.cc': '#include <boost/asio.hpp>\n',
                 'stack/tcp/d.cc': '#include <unistd.h>\n'}
        self.assertEqual(self.places(includes.check, files),
                         [('daemon/b.cc', 1), ('libclient/c.cc', 1), ('stack/tcp/d.cc', 1)])

    def test_each_banned_word_is_found(self):
        samples = {
            'stack/tcp/a.cc': ['std::function<void()> f;', 'std::shared_ptr<int> p;',
                               'std::unordered_map<int, int> m;', 'std::string s;',
                               'std::cout << 1;', 'std::mutex m;', 'throw 1;',
                               'auto t = steady_clock::now();', 'std::random_device d;',
                               'rte_mbuf* m;', 'std::map<int, int> m;', 'std::ostream& o;',
                               'dynamic_cast<A*>(b);'],
            'daemon/b.cc': ['rte_eth_dev_close(0);'],
            'tools/lyre/perf/c.cc': ['auto t = std::chrono::system_clock::now();',
                                     '::clock_gettime(CLOCK_REALTIME, &now);'],
            'stack/io/dpdk/queue.cc': ['rte_eth_stats_get(0, &stats);'],
            'tests/unit/c.cc': ['#define private public'],
        }
        for path, lines in samples.items():
            for line in lines:
                with self.subTest(line=line):
                    files = {path: '\n' + line + '\n'}
                    self.assertEqual(self.places(words.check, files), [(path, 2)])

    def test_words_in_comments_and_strings_do_not_count(self):
        text = ('// no std::function here\n/* std::mutex\n */ const char* a = "rte_mbuf";\n'
                "int n = 1'000'000;  // throw\nconst char* b = R\"(steady_clock)\";\n")
        self.assertEqual(self.places(words.check, {'stack/tcp/a.cc': text}), [])

    def test_the_control_path_is_free(self):
        files = {'daemon/a.cc': 'std::string s; std::function<void()> f; throw 1;\n',
                 'stack/io/dpdk/b.cc': 'std::string s; rte_mbuf* m;\n',
                 'stack/tcp/c.cc': 'std::string_view v; std::optional<int> o;\n'}
        self.assertEqual(self.places(words.check, files), [])

    def test_unfinished_work_is_found_in_comments_and_scripts(self):
        mark = 'TO' + 'DO'
        files = {'daemon/a.cc': f'// {mark}: later\n', 'tools/run': f'#!/bin/sh\n# {mark}\n',
                 'tests/x/meson.build': f'# {mark}\n'}
        self.assertEqual(self.places(words.check, files),
                         [('daemon/a.cc', 1), ('tests/x/meson.build', 1), ('tools/run', 2)])

    def test_headers_are_guarded_and_choose_no_namespace(self):
        files = {'tools/a.h': 'int x;\n', 'tools/b.h': HEADER + 'using namespace std;\n'}
        self.assertEqual(self.places(words.check, files), [('tools/a.h', 1), ('tools/b.h', 2)])

    def test_long_functions_lines_and_files_are_found(self):
        body = '  x();\n' * rules.FUNCTION_LINES_MAX
        free = f'namespace a {{\nint f(int n) {{\n{body}}}\n}}\n'
        self.assertEqual(self.places(shape.check, {'daemon/a.cc': free}), [('daemon/a.cc', 2)])
        member = ('class A {\n public:\n  A(int x)\n      : x_{x}, y_{2} {\n' + body + '  }\n'
                  '  int x_{1};\n};\n')
        self.assertEqual(self.places(shape.check, {'daemon/a.cc': member}), [('daemon/a.cc', 3)])
        script = 'def f():\n' + '    x = 1\n' * rules.FUNCTION_LINES_MAX
        self.assertEqual(self.places(shape.check, {'tools/a.py': script}), [('tools/a.py', 1)])
        self.assertEqual(self.places(shape.check, {'tools/a.h': '//' + 'x' * 99 + '\n'}),
                         [('tools/a.h', 1)])
        self.assertEqual(self.places(shape.check, {'tools/a.h': '\n' * (rules.FILE_LINES_MAX + 1)}),
                         [('tools/a.h', rules.FILE_LINES_MAX + 1)])

    def test_classes_with_many_methods_are_found(self):
        def type_with(count):
            declared = ''.join(f'  [[nodiscard]] int f{i}(int x = 1) const;\n'
                               for i in range(count))
            return ('class A {\n public:\n  A();\n  ~A();\n  A(const A&) = delete;\n'
                    '  A& operator=(const A&) = delete;\n  friend void g();\n'
                    '  struct B {\n    void h() { x(); }\n  };\n'
                    f'{declared}  std::function<void()> call_;\n  int y_ = f0(1);\n}};\n')
        enough = rules.CLASS_METHODS_MAX
        self.assertEqual(self.places(shape.check, {'daemon/a.h': type_with(enough)}), [])
        self.assertEqual(self.places(shape.check, {'daemon/a.h': type_with(enough + 1)}),
                         [('daemon/a.h', 1)])

    def test_long_types_and_tables_are_not_functions(self):
        rows = '    {1, 2},\n' * 100
        text = (f'struct A {{\n{"  int x;" * 1}\n{"  int y();" + chr(10)}}};\n'
                f'constexpr int kTable[] = {{\n{rows}}};\nint f() {{ return 1; }}\n'
                + 'class B {\n' + '  int z;\n' * 100 + '};\n')
        self.assertEqual(self.places(shape.check, {'daemon/a.cc': text}), [])

    def test_a_header_must_compile_alone(self):
        files = {'tools/a.h': HEADER + 'inline uint32_t x = std::size(1);\n',
                 'tools/b.h': HEADER + '#include <cstdint>\ninline uint32_t y = 1;\n'}
        self.assertEqual(self.places(compiled.check_headers, files), [('tools/a.h', 1)])

    def test_a_header_that_begins_its_own_source_is_left_to_the_build(self):
        files = {'tools/a.h': HEADER + 'broken\n', 'tools/a.cc': '#include "tools/a.h"\n',
                 'tools/b.h': HEADER + 'broken\n',
                 'tools/b.cc': '#include "tools/a.h"\n#include "tools/b.h"\n'}
        self.assertEqual(self.places(compiled.check_headers, files), [('tools/b.h', 1)])

    def test_a_header_that_changed_is_compiled_again(self):
        files = {'tools/a.h': HEADER + '#include "tools/b.h"\n', 'tools/b.h': HEADER + 'class B;\n'}
        with Tree(files) as root:
            cache = os.path.join(root, 'cache')
            self.assertEqual(compiled.check_headers(root, cache=cache), [])
            with open(os.path.join(root, 'tools/b.h'), 'a', encoding='utf-8') as file:
                file.write('broken\n')
            self.assertEqual(len(compiled.check_headers(root, cache=cache)), 2)

    def test_an_example_in_a_document_must_compile(self):
        files = {'docs/a.md': '```c\nint main(void) { return 0; }\n```\n\n'
                              '```c\nint a;\nint b = c;\n```\n```sh\nnot C\n```\n'}
        self.assertEqual(self.places(compiled.check_examples, files), [('docs/a.md', 7)])

    def test_unformatted_code_is_found(self):
        try:
            compiled.formatter()
        except compiled.Skip as reason:
            self.skipTest(str(reason))
        files = {'tools/a.h': HEADER + '\ninline int x=1;\n',
                 'tools/b.h': HEADER + '\ninline int x = 1;\n'}
        self.assertEqual(self.places(compiled.check_format, files), [('tools/a.h', 3)])

    def test_the_command_fails_and_names_the_place(self):
        with Tree({'stack/tcp/a.cc': 'std::mutex m;\n'}) as root:
            run = run_lint('words', root)
            self.assertEqual(run.returncode, 1)
            self.assertIn("stack/tcp/a.cc:1: 'std::mutex' is banned here: ", run.stdout)
        with Tree({'stack/tcp/a.cc': 'int x;\n'}) as root:
            run = run_lint('words', root)
            self.assertEqual((run.returncode, run.stdout), (0, ''))


if __name__ == '__main__':
    unittest.main()
