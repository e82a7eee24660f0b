"""No worker may take a lock or sleep in a futex: what its objects ask of others tells."""

import re
import subprocess
import sys

LOCKS = re.compile(r'pthread_(mutex|rwlock|cond|spin|barrier)|std::.*(mutex|condition_variable)|'
                   r'\bsem_|__cxa_guard|std::__atomic_futex|\bfutex')


def undefined_symbols(library):
    result = subprocess.run(['nm', '--undefined-only', '--demangle', library], check=True,
                            capture_output=True, text=True)
    return {line.split(None, 1)[1] for line in result.stdout.splitlines() if ' U ' in line}


def main(libraries):
    if not LOCKS.search('pthread_mutex_lock') or not LOCKS.search('std::mutex::lock()'):
        sys.exit('the pattern does not know a lock when it sees one')
    is_clean = True
    for library in libraries:
        symbols = undefined_symbols(library)
        if not symbols:
            sys.exit(f'{library}: no symbols at all: nothing was checked')
        for symbol in sorted(filter(LOCKS.search, symbols)):
            print(f'{library}: a worker would wait in {symbol}')
            is_clean = False
    sys.exit(0 if is_clean else 1)


main(sys.argv[1:])
