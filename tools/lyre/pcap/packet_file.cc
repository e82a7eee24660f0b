#include "tools/lyre/pcap/packet_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/lyre/failure.h"

namespace lyre::tools {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr mode_t kFileMode = 0600;

int descriptor_of(const std::string& path) {
  if (path == "-") return ::dup(STDOUT_FILENO);
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kFileMode);
}

}  // namespace

PacketFile::PacketFile(const std::string& path)
    : name_(path == "-" ? "standard output" : path), file_(nullptr) {
  const int descriptor = descriptor_of(path);
  if (descriptor >= 0) file_ = ::fdopen(descriptor, "w");
  if (file_ == nullptr) fail("cannot be written");
  std::setvbuf(file_, nullptr, _IOFBF, kBufferBytes);
}

PacketFile::~PacketFile() { std::fclose(file_); }

void PacketFile::write(const std::string& bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail("was not written");
}

void PacketFile::flush() {
  if (std::fflush(file_) != 0) fail("was not written");
}

void PacketFile::fail(const char* what) const {
  throw Failure(kExitFailure, name_ + " " + what + ": " + std::strerror(errno));
}

void check_is_no_terminal(const std::string& path) {
  if (path != "-" || ::isatty(STDOUT_FILENO) == 0) return;
  throw Failure(kExitUsage,
                "standard output is a terminal: name a file with -w, or pipe it to a program");
}

}  // namespace lyre::tools
