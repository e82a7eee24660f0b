#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

/// Checks of option values. Each failure says in one short line what is allowed.
namespace lyre::tools {

/// For CLI::Option::transform(): a number of bytes, as 65536, 64k, 64KiB or 4 MiB. Units are powers
/// of 1024, in either case.
CLI::Validator size_between(uint64_t least, uint64_t most);

/// For CLI::Option::check(): digits.
CLI::Validator count_between(uint64_t least, uint64_t most);

/// For CLI::Option::transform(): an address, or an address and port, as sessions are printed.
CLI::Validator peer_address();

/// For CLI::Option::check(): a finite number.
CLI::Validator seconds_between(double least, double most);

}  // namespace lyre::tools
