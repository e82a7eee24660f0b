#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "nccl_adapter/limits.h"
#include "nccl_adapter/observe/operation.h"
#include "nccl_adapter/transport/environment.h"

namespace lyre::nccl_adapter {

class Comm;

/// One isend or irecv, from its posting until test() said done. NCCL's request pointer.
struct Request {
  enum class State : uint8_t {
    kFree,
    kActive,
    kLetGo,  ///< a kept send that is handed over: NCCL need not wait until it is placed
    kTold,   ///< the same, and test() said done
    kDone,
  };

  State state = State::kFree;
  uint8_t slot = 0;
  Comm* comm = nullptr;
  uint8_t* data = nullptr;
  uint64_t bytes = 0;        ///< to send; for a receive: posted, then what came
  uint64_t moved_bytes = 0;  ///< handed to the stream, or placed
  int64_t posted_ns = 0;
  Operation operation;             ///< that it is part of
  const Memory* memory = nullptr;  ///< of a send: where the daemon can read it
  bool is_kept = false;  ///< of a send: `data` is a copy that stays until the message is placed
  bool is_in_queue_pair = false;  ///< of a send: one carried a part of it

  /// What test() says.
  bool is_done() const { return state == State::kLetGo || state == State::kDone; }
};

/// The requests of one comm. Messages finish in the order of posting; slots come back in the order
/// of testing, whatever that is.
/// Thread: one at a time.
class RequestTable {
 public:
  explicit RequestTable(Comm* comm);
  RequestTable(const RequestTable&) = delete;
  RequestTable& operator=(const RequestTable&) = delete;

  /// Fails: nullptr when every slot is in use.
  Request* post(void* data, uint64_t bytes);
  /// Message number of the next post(), of the oldest that is not done, and how many are between.
  uint64_t posted() const { return posted_; }
  uint64_t finished() const { return finished_; }
  size_t active() const { return static_cast<size_t>(posted_ - finished_); }
  /// REQUIRES: finished() <= message < posted().
  Request& at(uint64_t message) { return slots_[order_[message % kRequestsPerComm]]; }
  const Request& at(uint64_t message) const { return slots_[order_[message % kRequestsPerComm]]; }
  /// Of those, how many test() did not say done of.
  size_t untold() const;
  /// Only kept sends are active.
  bool are_all_told() const { return active() > 0 && untold() == 0; }
  /// nullptr: none is active.
  const Request* oldest() const { return active() > 0 ? &at(finished_) : nullptr; }
  /// The oldest message is done. REQUIRES: active() > 0.
  void finish_oldest();
  /// Of the messages that are not done.
  uint64_t outstanding_bytes() const;
  /// Whether a message that is not done has a byte in [base, base + bytes).
  bool touches(const uint8_t* base, uint64_t bytes) const;
  /// Of all messages that are done.
  uint64_t finished_bytes() const { return finished_bytes_; }
  /// test() said done: gives the slot back, now or when the message is placed.
  /// REQUIRES: request.is_done().
  void release(Request* request);

 private:
  void free(Request* request);

  std::array<Request, kRequestsPerComm> slots_;
  std::array<uint8_t, kRequestsPerComm> free_{};
  size_t free_count_ = kRequestsPerComm;
  std::array<uint8_t, kRequestsPerComm> order_{};  ///< slot of message % size
  uint64_t posted_ = 0;
  uint64_t finished_ = 0;
  uint64_t finished_bytes_ = 0;
};

}  // namespace lyre::nccl_adapter
