#pragma once

#include <cstdint>
#include <optional>
#include <string>

/// Sizes as command lines have them. Units are powers of 1024.
namespace lyre::tools {

/// Digits, then optionally spaces and a unit: B, or K, M, G, T, P or E alone or with B or iB, in
/// either case. Fails: nullopt, also when the size does not fit into 64 bits.
std::optional<uint64_t> parse_size(const std::string& text);

/// The shortest text that parse_size() reads as `bytes`.
std::string size_text(uint64_t bytes);

}  // namespace lyre::tools
