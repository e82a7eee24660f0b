"""The rules as data: allowed includes, banned words, and the longest functions, files and lines."""

# Longest folder wins. A file may include its own folder's headers and those of the folders (or the
# single headers) named here.
INCLUDE_TABLE = {
    'stack/base': [],
    'stack/record': ['stack/base'],
    'stack/wire': ['stack/base'],
    'stack/channel': ['stack/base'],
    'stack/io': ['stack/base'],
    'stack/io/dpdk': ['stack/base', 'stack/io'],
    'stack/io/sim': ['stack/base', 'stack/io'],
    'stack/link': ['stack/base', 'stack/wire', 'stack/io/packet.h'],
    'stack/ip': ['stack/base', 'stack/wire', 'stack/link', 'stack/io/packet.h'],
    'stack/tcp': ['stack/base', 'stack/wire', 'stack/record'],
    'stack/session': ['stack/base', 'stack/tcp', 'stack/channel'],
    'stack/worker': ['stack/base', 'stack/record', 'stack/wire', 'stack/channel', 'stack/io',
                     'stack/link', 'stack/ip', 'stack/tcp', 'stack/session', 'stack/worker/routing',
                     'stack/worker/tables', 'stack/worker/clients'],
    'stack/worker/clients': ['stack/base', 'stack/channel', 'stack/session', 'stack/worker/tables',
                             'stack/worker/inbox.h', 'stack/worker/turn_limits.h'],
    'stack/worker/tables': ['stack/base', 'stack/session'],
    'stack/worker/routing': ['stack/base', 'stack/wire', 'stack/channel', 'stack/io/packet.h',
                             'stack/link', 'stack/worker/flow_table.h', 'stack/worker/mailbox.h'],
    'machine': [],
    'daemon': ['machine', 'stack/base', 'stack/record', 'stack/wire', 'stack/channel', 'stack/io',
               'stack/link', 'stack/ip', 'stack/tcp', 'stack/session',
               'stack/worker', 'stack/worker/routing', 'stack/worker/tables',
               'stack/worker/clients', 'daemon/base', 'daemon/config', 'daemon/protocol',
               'daemon/host', 'daemon/workers', 'daemon/memory', 'daemon/stats',
               'daemon/ports', 'daemon/control', 'daemon/upgrade', 'libclient/include',
               'libclient/upgrade.h', 'nccl_adapter/abi/telemetry.h'],
    'daemon/base': ['stack/base'],
    'daemon/config': ['stack/base', 'stack/channel', 'stack/wire', 'stack/tcp', 'stack/worker'],
    'daemon/protocol': ['stack/base', 'stack/record', 'stack/channel', 'daemon/base'],
    'daemon/host': ['stack/base', 'machine', 'daemon/base', 'daemon/config',
                    'nccl_adapter/abi/telemetry.h'],
    'daemon/workers': ['stack/base', 'stack/channel', 'stack/io', 'stack/worker', 'machine',
                       'daemon/base', 'daemon/config'],
    'daemon/memory': ['stack/base', 'stack/record', 'stack/channel', 'stack/worker', 'daemon/base',
                      'daemon/protocol', 'daemon/host', 'daemon/workers'],
    'daemon/stats': ['stack/base', 'stack/channel', 'daemon/base', 'daemon/protocol'],
    'daemon/ports': ['stack/base', 'stack/channel', 'stack/io', 'stack/worker', 'daemon/base',
                     'daemon/config', 'daemon/protocol', 'daemon/workers', 'daemon/stats'],
    'daemon/control': ['stack/base', 'stack/record', 'stack/channel', 'stack/worker', 'daemon/base',
                       'daemon/config', 'daemon/protocol', 'daemon/workers', 'daemon/memory'],
    'daemon/upgrade': ['stack/base', 'stack/record', 'daemon/base', 'daemon/config',
                       'daemon/protocol', 'daemon/host'],
    'daemon/backend.cc': ['daemon', 'machine', 'stack/io', 'stack/io/dpdk'],
    'libclient': ['stack/base', 'stack/channel', 'libclient/include'],
    'libclient/include': [],
    'nccl_adapter': ['nccl_adapter/abi', 'nccl_adapter/observe'],
    'nccl_adapter/abi': [],
    'nccl_adapter/protocol': ['nccl_adapter', 'nccl_adapter/abi'],
    'nccl_adapter/observe': ['nccl_adapter/abi', 'nccl_adapter/protocol/bytes.h',
                             'libclient/unforked_fd.h'],
    'nccl_adapter/transport': ['libclient/include', 'nccl_adapter', 'nccl_adapter/abi',
                               'nccl_adapter/protocol', 'nccl_adapter/observe'],
    'nccl_adapter/transport/verbs': ['libclient/include', 'nccl_adapter', 'nccl_adapter/abi',
                                     'nccl_adapter/protocol', 'nccl_adapter/observe',
                                     'nccl_adapter/transport'],
    'nccl_adapter/comm': ['libclient/include', 'nccl_adapter', 'nccl_adapter/abi',
                          'nccl_adapter/protocol', 'nccl_adapter/observe',
                          'nccl_adapter/transport', 'nccl_adapter/transport/verbs'],
    'nccl_adapter/daemon_link': ['libclient/include', 'nccl_adapter', 'nccl_adapter/abi',
                                 'nccl_adapter/protocol', 'nccl_adapter/observe',
                                 'nccl_adapter/transport', 'nccl_adapter/transport/verbs',
                                 'nccl_adapter/comm'],
    'nccl_adapter/plugin': ['libclient/include', 'nccl_adapter', 'nccl_adapter/abi',
                            'nccl_adapter/protocol', 'nccl_adapter/observe',
                            'nccl_adapter/transport', 'nccl_adapter/transport/verbs',
                            'nccl_adapter/comm', 'nccl_adapter/daemon_link'],
    'tools': ['machine', 'stack/base', 'stack/channel/stats.h', 'stack/channel/capture.h',
              'libclient/include', 'libclient/stats_segment.h', 'libclient/packet_capture.h',
              'libclient/upgrade.h', 'libclient/client_mark.h', 'nccl_adapter/abi',
              'tools/nccl_emulator'],
    'tools/nccl_emulator': ['nccl_adapter/abi'],
    'tools/lyre/documents': ['tools', 'daemon/command_line.h', 'daemon/config/config_keys.h'],
    'tools/kernel_plugin': ['nccl_adapter/abi'],
}

# Where `#include "x"` is looked for, beside the root and the file's own folder.
INCLUDE_ROOTS = ['libclient/include']

# Headers in <> that are no part of the C++ standard library: folder -> prefixes it may use.
# Folders of stack/ that are not named use the standard library only.
SYSTEM_HEADERS = {
    'stack': [],
    'stack/base': ['sched.h', 'sys/mman.h', 'sys/syscall.h', 'unistd.h'],
    'stack/channel': ['unistd.h', 'sys/', 'fcntl.h', 'linux/'],
    'stack/io': ['unistd.h', 'sys/', 'fcntl.h', 'linux/'],
    'stack/io/dpdk': [''],
    'stack/worker': ['unistd.h', 'sys/eventfd.h'],
}
# Libraries: prefix of the header -> folders that may name it. Tests may name all.
LIBRARIES = {
    'rte_': ['stack/io/dpdk'],
    'boost/': ['daemon', 'tools/lyre/metrics'],
    'toml++/': ['daemon', 'tools'],
    'spdlog/': ['daemon', 'tools'],
    'systemd/': ['daemon'],
    'CLI/': ['daemon', 'tools'],
    'pcap/': ['tools/lyre/pcap'],
    'nlohmann/': ['daemon', 'tools'],
    'infiniband/': ['nccl_adapter/transport/verbs'],
}

PACKET_PATH = ['stack/wire', 'stack/io', 'stack/link', 'stack/ip', 'stack/tcp', 'stack/session',
               'stack/channel', 'stack/worker']
PRODUCT = ['stack', 'machine', 'daemon', 'libclient', 'nccl_adapter', 'tools']

# (pattern, folders, folders that are free all the same, what to use instead)
# Searched in code without its comments and strings.
BANNED_IN_CODE = [
    (r'\bstd::function\b', PACKET_PATH, ['stack/io/dpdk'],
     'use a template parameter, or a switch over an enum'),
    (r'\bstd::shared_ptr\b', PACKET_PATH, [],
     'name the one owner; refer by index (stack/base/slab.h)'),
    (r'\bstd::unordered_(?:multi)?(?:map|set)\b', PACKET_PATH, ['stack/io/dpdk'],
     'use a fixed table that is sized at start'),
    (r'\bstd::(?:multi)?(?:map|set|list|deque)\b', PACKET_PATH, ['stack/io/dpdk'],
     'use a fixed table or a Slab: no allocation after start'),
    (r'\bstd::string\b', PACKET_PATH, ['stack/io/dpdk', 'stack/io/backend.h'],
     'use an enum with a text table, or std::string_view'),
    (r'\bstd::(?:cout|cerr|clog|endl|[io]?stream|[io]?stringstream)\b', PACKET_PATH, [],
     'count it; text is written by the tools'),
    (r'\bstd::(?:mutex|recursive_mutex|shared_mutex|lock_guard|unique_lock|scoped_lock|'
     r'condition_variable)\b', PACKET_PATH, ['stack/io/dpdk'],
     'share nothing; send a message through the inbox'),
    (r'\bthrow\b|\btry\s*\{|\bcatch\s*\(', ['stack'], [],
     'return a Drop, a short count or std::optional: stack/ is built without exceptions'),
    (r'\bdynamic_cast\b|\btypeid\b', ['stack'], [], 'stack/ is built without RTTI'),
    (r'\b(?:steady|system|high_resolution)_clock\b|\bclock_gettime\b|\bgettimeofday\b|\brdtscp?\b|'
     r'\b__rdtscp?\b', ['stack'], ['stack/io/dpdk'], 'take Nanos now as an argument'),
    # The files that are free show a time of day.
    (r'\bsystem_clock\b|\bCLOCK_REALTIME\b', ['daemon', 'libclient', 'nccl_adapter', 'tools'],
     ['daemon/assembly.cc', 'tools/lyre/pcap/run.cc', 'tools/lyre/snapshot.cc'],
     'use the steady clock: somebody may set the time of day during a wait'),
    (r'\bstd::random_device\b|\bstd::mt19937(?:_64)?\b|\bgetrandom\b|\bs?rand\s*\(', ['stack'], [],
     'take a seeded Rng (stack/base/rng.h)'),
    (r'\brte_\w+', PRODUCT, ['stack/io/dpdk'],
     'go through PacketIo: only stack/io/dpdk names DPDK'),
    # Some drivers answer these by an admin command and sleep meanwhile (ENA).
    (r'\brte_eth_x?stats_get\w*', ['stack/io/dpdk'],
     ['stack/io/dpdk/port.cc', 'stack/io/dpdk/extended_stats.cc'],
     'a queue reads its own counters: the control thread asks the device through Port'),
    (r'#\s*define\s+private\b|\bfriend\s+class\s+\w*Test\b', PRODUCT + ['tests'], ['tests/lint'],
     'a test that needs this found a second class: take it out'),
]
# Searched in headers only.
BANNED_IN_HEADERS = [
    (r'^\s*using\s+namespace\b', 'name what you use: a header must not choose for its readers'),
]
# Searched in everything, comments included. Written apart so that this file passes itself.
BANNED_ANYWHERE = [
    (r'\b(?:TO' + r'DO|FIX' + r'ME|XX' + r'X|HA' + r'CK)\b', 'open an issue instead, or do it now'),
]

FUNCTION_LINES_MAX = 45
FILE_LINES_MAX = 600
CLASS_METHODS_MAX = 40
LINE_COLUMNS_MAX = 100

CODE_FOLDERS = ['stack', 'machine', 'daemon', 'libclient', 'nccl_adapter', 'tools', 'tests']
# Where documents and comments are looked at.
TOP_FOLDERS = CODE_FOLDERS + ['config', 'docs']
TEXT_SUFFIXES = ('.md', '.h', '.cc', '.c', '.py', '.sh', '.build', '.toml', '.conf', '.in')
CPP_SUFFIXES = ('.h', '.cc', '.c', '.cpp', '.hpp')
SCRIPT_SUFFIXES = ('.py', '.sh')

# Formatters of different versions disagree; this one is the reference.
CLANG_FORMAT_MAJOR = 14
