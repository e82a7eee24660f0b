#include "machine/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace lyre::machine {

namespace fs = std::filesystem;

namespace {

/// O_PATH first: the open of a FIFO may not return, and that of a device may change its state.
/// The second open reaches the same file, whatever its name now stands for. O_NONBLOCK: another
/// process's lease on the file would delay it.
int open_regular(const std::string& path) {
  const int found = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (found < 0) return -1;
  struct stat status {};
  int file = -1;
  if (::fstat(found, &status) == 0 && S_ISREG(status.st_mode)) {
    const std::string same = "/proc/self/fd/" + std::to_string(found);
    file = ::open(same.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  }
  ::close(found);
  return file;
}

}  // namespace

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<std::string> lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> out;
  for (std::string line; std::getline(file, line);) out.push_back(line);
  return out;
}

std::string regular_file(const std::string& path, size_t bytes_max) {
  const int file = open_regular(path);
  if (file < 0) return {};
  std::string out;
  char block[16384];
  while (out.size() < bytes_max) {  // the size of the kernel's files is 0
    const ssize_t done = ::read(file, block, std::min(sizeof block, bytes_max - out.size()));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) break;
    out.append(block, static_cast<size_t>(done));
  }
  ::close(file);
  return out;
}

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

std::optional<int64_t> number(const std::string& path) {
  const std::string line = first_line(path);
  char* end = nullptr;
  const int64_t value = std::strtoll(line.c_str(), &end, 0);
  if (end == line.c_str()) return std::nullopt;
  return value;
}

std::vector<std::string> entries(const std::string& directory) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    out.push_back(it->path().filename());
  }
  std::sort(out.begin(), out.end());
  return out;
}

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string link_name(const std::string& path) {
  std::error_code error;
  return fs::read_symlink(path, error).filename();
}

}  // namespace lyre::machine
