#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libclient/unforked_fd.h"
#include "nccl_adapter/abi/telemetry.h"

namespace lyre::nccl_adapter {

/// The file in which an instance shows its comms, locked as long as a process writes
/// it; what others of this user left unlocked is removed. A child of fork() has neither the file
/// nor its memory, and may only destroy this object, which does nothing there. Everything goes on
/// where there can be no file. /dev/shm is small in a container, and writing a page that it has no
/// room for would kill the process (SIGBUS): pages are allocated before they are written, and only
/// for slots in use. Thread: under the instance's lock.
class Telemetry {
 public:
  /// `directory`: "none" for no file. `number`, which is random, tells its name from that of other
  /// processes with this uid and process id: other containers may have them, too.
  Telemetry(const std::string& directory, const std::string& host, const std::string& socket,
            uint64_t number);
  /// Removes the file.
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  /// A place for a comm; nullptr when there is none, or no memory for one. Such a comm is counted
  /// until its nullptr is given back.
  nccl_abi::CommSlot* take();
  void give_back(nccl_abi::CommSlot* slot);
  /// Counts a connection that was rejected because it does not come from a peer.
  void count_foreign(const std::string& address);
  /// This host's RDMA ports that are not used, and why; it is cut where it is too long.
  void show_verbs(const std::string& summary);
  /// Stores the time, which shows that this process is alive. Thread: any.
  void touch(int64_t now_ns);

 private:
  /// errno when there is no file to write.
  int open_file(const std::string& directory, uint64_t number);
  bool has_room_for(uint32_t slots);
  /// REQUIRES: there is a file.
  std::atomic<uint32_t>& not_shown();

  std::string path_;
  client::UnforkedFd fd_;
  uint8_t* memory_ = nullptr;
  std::vector<uint32_t> free_;
  uint32_t used_ = 0;
  uint32_t allocated_ = 0;  ///< slots whose pages are there
  bool is_full_ = false;    ///< and was said to be
};

}  // namespace lyre::nccl_adapter
