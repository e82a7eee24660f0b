#include "tools/lyre/pcap/packet_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/lyre/failure.h"

namespace lyre::tools {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr mode_t kFileMode = 0600;

/// A device, a FIFO, the target of a link, or a file that cannot be removed. A regular file gets
/// the mode of a new one, and is emptied only then.
int open_in_place(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kFileMode);
  struct stat opened {};
  if (descriptor < 0 || ::fstat(descriptor, &opened) != 0) return descriptor;
  if (!S_ISREG(opened.st_mode)) return descriptor;
  if (::fchmod(descriptor, kFileMode) == 0 && ::ftruncate(descriptor, 0) == 0) return descriptor;
  const int reason = errno;
  ::close(descriptor);
  errno = reason;
  return -1;
}

/// A regular file is removed, not truncated: its mode, its owner and the processes that have it
/// open would stay. Nothing is lost by that, since its bytes are to be replaced, and O_EXCL fails
/// where another process makes a file of that name meanwhile.
int descriptor_of(const std::string& path) {
  if (path == "-") return ::dup(STDOUT_FILENO);
  struct stat there {};
  const bool is_there = ::lstat(path.c_str(), &there) == 0;
  if (is_there && !S_ISREG(there.st_mode)) return open_in_place(path);
  // Of a folder that only others may write, or mounted.
  if (is_there && ::unlink(path.c_str()) != 0) return open_in_place(path);
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode);
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
  if (has_no_reader_) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) on_failed_write();
}

void PacketFile::flush() {
  if (!has_no_reader_ && std::fflush(file_) != 0) on_failed_write();
}

void PacketFile::on_failed_write() {
  if (errno != EPIPE) fail("was not written");
  has_no_reader_ = true;
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
