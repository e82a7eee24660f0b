#include "nccl_adapter/core/telemetry.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "nccl_adapter/core/bytes.h"
#include "nccl_adapter/core/log.h"

namespace lyre::nccl_adapter {

using nccl_abi::CommSlot;
using nccl_abi::TelemetryHeader;

namespace {

std::string file_name(const std::string& directory) {
  static std::atomic<uint32_t> count{0};  // several communicators, each with an instance
  return directory + "/" + nccl_abi::kTelemetryPrefix + std::to_string(::getuid()) + "-" +
         std::to_string(::getpid()) + "-" +
         std::to_string(count.fetch_add(1, std::memory_order_relaxed));
}

uint8_t* make_file(const std::string& path) {
  ::unlink(path.c_str());  // of a process that had our id before
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (::ftruncate(fd, nccl_abi::kTelemetryBytes) == 0) {
    memory = ::mmap(nullptr, nccl_abi::kTelemetryBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  ::close(fd);
  if (memory != MAP_FAILED) return static_cast<uint8_t*>(memory);
  ::unlink(path.c_str());
  return nullptr;
}

template <size_t kBytes>
void copy_text(char (&out)[kBytes], const std::string& text) {
  put_text({reinterpret_cast<uint8_t*>(out), kBytes}, 0, kBytes - 1, text);
}

}  // namespace

Telemetry::Telemetry(const std::string& directory, const std::string& host,
                     const std::string& socket) {
  if (directory == "none") return;
  path_ = file_name(directory);
  memory_ = make_file(path_);
  if (memory_ == nullptr) {
    log_info("`lyre comms` will not show this process: cannot write %s: %s", path_.c_str(),
             ::strerror(errno));
    return;
  }
  auto* header = new (memory_) TelemetryHeader{};
  header->version = nccl_abi::kTelemetryVersion;
  header->slots = nccl_abi::kTelemetrySlots;
  header->slot_bytes = sizeof(CommSlot);
  header->pid = static_cast<uint32_t>(::getpid());
  copy_text(header->host, host);
  copy_text(header->program, program_invocation_short_name);
  copy_text(header->socket, socket);
  header->magic = nccl_abi::kTelemetryMagic;
}

Telemetry::~Telemetry() {
  if (memory_ == nullptr) return;
  ::unlink(path_.c_str());
  ::munmap(memory_, nccl_abi::kTelemetryBytes);
}

CommSlot* Telemetry::take() {
  if (memory_ == nullptr) return nullptr;
  uint32_t index = used_;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else if (used_ < nccl_abi::kTelemetrySlots) {
    ++used_;
  } else {
    return nullptr;
  }
  auto* slots = reinterpret_cast<CommSlot*>(memory_ + nccl_abi::kTelemetrySlotsOffset);
  return &slots[index];
}

void Telemetry::give_back(CommSlot* slot) {
  if (slot == nullptr) return;
  slot->is_used.store(0, std::memory_order_release);  // pairs with the acquire in read_slot()
  auto* slots = reinterpret_cast<CommSlot*>(memory_ + nccl_abi::kTelemetrySlotsOffset);
  free_.push_back(static_cast<uint32_t>(slot - slots));
}

void Telemetry::touch(int64_t now_ns) {
  if (memory_ == nullptr) return;
  reinterpret_cast<TelemetryHeader*>(memory_)->written_ns.store(now_ns, std::memory_order_relaxed);
}

}  // namespace lyre::nccl_adapter
