#include "daemon/control/capture_registry.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/errno_error.h"
#include "stack/base/check.h"

namespace lyre {

Status CaptureRegistry::check_room(uint32_t port) const {
  const bool is_captured = std::any_of(captures_.begin(), captures_.end(), [port](const auto& one) {
    return one->port == port && !one->is_ending;
  });
  if (is_captured) return Error{EBUSY, "the port is captured already: one at a time"};
  if (captures_.size() < worker::kCapturesMax) return Ok{};
  return Error{EBUSY, "the workers have not let go of earlier captures yet"};
}

Result<CaptureRegistry::Grant> CaptureRegistry::begin(uint32_t port, uint32_t snap_bytes) {
  if (Status room = check_room(port); !room.ok()) return room.error();
  auto memory = SharedMemory::create("lyre-capture", worker_count_ * sizeof(channel::CaptureRing),
                                     SharedWith::kWriters);
  if (!memory.ok()) return memory.error();
  // Allocated now: a worker that writes to a page which the system refuses ends the daemon.
  if (::fallocate(memory->fd(), 0, 0, static_cast<off_t>(memory->bytes())) != 0) {
    return errno_error("no memory for a capture");
  }
  auto capture = std::make_unique<Capture>();
  capture->id = next_id_++;
  capture->port = port;
  capture->memory = std::move(*memory);
  // The memory is zero, as a ring is at its start.
  auto* rings = reinterpret_cast<channel::CaptureRing*>(capture->memory.data());
  for (uint32_t i = 0; i < worker_count_; ++i) {
    capture->of_worker.emplace_back(rings[i], snap_bytes);
    capture->held_by.set(i);
  }
  tell_workers(*capture, worker::Command::Kind::kBeginCapture);
  captures_.push_back(std::move(capture));
  const Capture& made = *captures_.back();
  return Grant{.id = made.id, .memory_fd = made.memory.fd()};
}

void CaptureRegistry::end(Id id) {
  const auto found = std::find_if(captures_.begin(), captures_.end(),
                                  [id](const auto& one) { return one->id == id; });
  // Its connection calls this once, when it ends.
  LYRE_CHECK(found != captures_.end() && !(*found)->is_ending);
  (*found)->is_ending = true;
  tell_workers(**found, worker::Command::Kind::kEndCapture);
}

void CaptureRegistry::tell_workers(Capture& capture, worker::Command::Kind kind) {
  for (uint32_t i = 0; i < worker_count_; ++i) {
    post_(i, {.kind = kind,
              .port = static_cast<uint8_t>(capture.port),
              .capture = &capture.of_worker[i]});
  }
}

void CaptureRegistry::on_reply(uint32_t worker, const worker::Reply& reply) {
  const auto found = std::find_if(captures_.begin(), captures_.end(), [&](const auto& one) {
    return &one->of_worker[worker] == reply.capture;
  });
  // It stays until each worker has answered kEndCapture, which each does once.
  LYRE_CHECK(found != captures_.end() && (*found)->held_by.test(worker));
  (*found)->held_by.reset(worker);
  if ((*found)->held_by.none()) captures_.erase(found);
}

}  // namespace lyre
