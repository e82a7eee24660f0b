#pragma once

#include <cstdint>
#include <string>

/// Numbers as text for people. Units of bytes are powers of 1024, units of bits per second are
/// powers of 1000.
namespace lyre::tools {

std::string format_bytes(uint64_t bytes);          ///< "1.50 GiB"
std::string format_rate(double bits_per_second);   ///< "26.7 Gb/s"
std::string format_duration(int64_t duration_ns);  ///< "23.4 us", "3m 12s"
std::string format_time(int64_t unix_ns);          ///< "2026-11-23 04:05:06", local
std::string format_address(const uint8_t (&address)[16]);
std::string format_endpoint(const uint8_t (&address)[16], uint16_t port);

}  // namespace lyre::tools
