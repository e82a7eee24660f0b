#pragma once

#include <cstdint>
#include <span>

#include "daemon/base/owned_fd.h"
#include "stack/base/result.h"

namespace lyre {

/// Which processes may write a shared memory.
enum class SharedWith : uint8_t {
  kReaders,  ///< only this mapping: the seal refuses every other one
  kWriters,  ///< every holder of the descriptor. Left out of a core: it has what clients send
};

/// A memfd of fixed size, mapped for writing. Its size is sealed. A client
/// that may write can punch holes into it (threat model, known and open).
/// Owner: mapping and descriptor end with this object.
class SharedMemory {
 public:
  /// Fails: no memory, no descriptor, no memfd on this system.
  static Result<SharedMemory> create(const char* name, uint64_t bytes, SharedWith with);
  /// Maps a memory that another process made with SharedWith::kWriters.
  /// Fails: EINVAL it is not such a memory of that size; or the errno of the mapping.
  static Result<SharedMemory> adopt(OwnedFd memory, uint64_t bytes);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  /// Gives a part its pages now. Fails: no memory.
  Status allocate(uint64_t offset, uint64_t bytes) const;

  uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }
  /// Ends the mapping. The pages end with the last descriptor and mapping of all processes.
  OwnedFd release();

 private:
  void unmap();

  OwnedFd fd_;
  uint8_t* data_ = nullptr;
  uint64_t bytes_ = 0;
};

/// Whether the system may refuse a page of a shared memory when it is touched first, by SIGBUS
/// (vm.overcommit_memory = 2).
bool accounts_strictly();

/// A second, read-only open of what `fd` names. Fails: /proc is not there.
Result<OwnedFd> reopen_read_only(int fd);
/// The same for reading and writing: for another process, so that take_back() sees when that one
/// has it no longer.
Result<OwnedFd> reopen(int fd);

/// Whether take_back() can tell of the file of a SharedMemory with SharedWith::kWriters. Not of one
/// that an older daemon made, nor where the system grants no leases (fs.leases-enable = 0).
bool can_be_taken_back(int fd);
/// True: only `fd` and its duplicates have the file open, and no other process maps it. Nobody can
/// open it then until they are closed. What holds it without having it open (O_PATH) is not seen.
/// REQUIRES: can_be_taken_back(). Fails: EAGAIN another one has it; other errors: not known.
bool take_back(int fd);
/// Gives all pages back to the system, also where something holds the file, unless take_back()
/// fails now: another process that has it open can hold the file's lock for as long as it wants.
void free_pages(int fd);

}  // namespace lyre
