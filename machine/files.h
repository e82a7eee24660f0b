#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lyre::machine {

/// Where the files of the kernel and of the boot are: tests put recorded trees in their place.
struct Roots {
  std::string proc = "/proc";
  std::string sys = "/sys";
  std::string etc = "/etc";  ///< what was told to happen at each boot
};

/// The first line of a file without its newline; empty if there is no such file.
std::string first_line(const std::string& path);
/// All lines of a file; none if there is no such file.
std::vector<std::string> lines(const std::string& path);
/// The first `bytes_max` bytes of a file that another user may have named or made. Empty if there
/// is no such file, or it is not a regular one: a FIFO, a device and a socket are not opened.
/// Follows symbolic links.
std::string regular_file(const std::string& path, size_t bytes_max);
/// The words of a line, separated by blanks.
std::vector<std::string> words(const std::string& line);
/// The number at the start of a file, decimal or 0x...; none if there is none.
std::optional<int64_t> number(const std::string& path);
/// Names in a directory, sorted; none if there is no such directory.
std::vector<std::string> entries(const std::string& directory);
bool exists(const std::string& path);
/// The last part of what a symbolic link points to, such as a driver's name; empty if none.
std::string link_name(const std::string& path);

}  // namespace lyre::machine
