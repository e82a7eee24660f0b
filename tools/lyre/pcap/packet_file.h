#pragma once

#include <cstdio>
#include <string>

namespace lyre::tools {

/// The file, or the standard output, to which packets are written.
/// Fails: each function throws Failure with the name of the file and the reason. A pipe that its
/// reader has closed is no failure: nothing more is written to it.
class PacketFile {
 public:
  /// "-": standard output. A regular file is replaced by a new one, which only its owner can read:
  /// packets are those of all clients. Devices and FIFOs are opened as they are. A file that cannot
  /// be removed is emptied, and gets that mode.
  explicit PacketFile(const std::string& path);
  ~PacketFile();
  PacketFile(const PacketFile&) = delete;
  PacketFile& operator=(const PacketFile&) = delete;

  void write(const std::string& bytes);
  /// What was written is out.
  void flush();
  bool has_no_reader() const { return has_no_reader_; }

 private:
  void on_failed_write();
  [[noreturn]] void fail(const char* what) const;

  std::string name_;
  std::FILE* file_;
  bool has_no_reader_ = false;
};

/// Fails: throws Failure where `path` is "-" and standard output is a terminal.
void check_is_no_terminal(const std::string& path);

}  // namespace lyre::tools
