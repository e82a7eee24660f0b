#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nccl_adapter/abi/common.h"
#include "tools/kernel_plugin/lane.h"
#include "tools/kernel_plugin/socket.h"

namespace lyre::kernel_plugin {

class Comm;

struct Request {
  Comm* comm = nullptr;
  uint8_t* data = nullptr;
  size_t bytes = 0;           // to send; of a receive: of the buffer, then of the message
  uint64_t header = 0;        // wire form of the message's size
  size_t control_offset = 0;  // bytes of header and inline body that crossed the control socket
  bool control_done = false;
  bool in_use = false;
  std::atomic<int> pieces_left{0};
};

/// The sockets of one comm as connect and accept made them.
struct CommSockets {
  Fd control;
  std::vector<Fd> data;  // empty: the payload follows its header on the control socket
  Endpoint peer{};
  int thread_count = 0;
};

/// One direction of one NCCL connection: a FIFO of messages. The control socket carries the size of
/// each. The payload follows there, or is divided among the data sockets, which helper threads
/// serve. Thread: one at a time.
class Comm {
 public:
  Comm(Direction direction, CommSockets sockets);
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  /// A null request means that all are in use, and the call is to be repeated.
  nccl_abi::Result post(Direction direction, void* data, size_t bytes, Request** out);
  nccl_abi::Result test(Request* request, int* done, int* sizes);

  /// After this the caller's memory is not accessed. A comm with requests in flight is unusable
  /// then.
  void quiesce();

 private:
  static constexpr size_t kRequests = nccl_abi::kRequestsMax;

  void pump();
  void pump_send();
  void pump_receive();
  bool take_header();
  void finish_control(Request& request);
  bool is_inline(size_t bytes) const;
  bool is_complete(const Request& request) const;
  void dispatch(Request& request);
  size_t collect_send_parts(struct iovec* parts, size_t parts_max);
  void account_sent(size_t bytes);
  Request& at(uint32_t index) { return requests_[index % kRequests]; }
  nccl_abi::Result report_failure();

  Direction direction_;
  Fd control_;
  Endpoint peer_;
  Failure failure_;
  bool oversized_ = false;
  bool failure_reported_ = false;
  std::array<Request, kRequests> requests_;
  uint32_t posted_ = 0;   // requests ever posted
  uint32_t current_ = 0;  // the first whose control part is incomplete
  uint64_t header_ = 0;   // of the next message
  size_t header_bytes_ = 0;
  size_t next_lane_ = 0;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::unique_ptr<Helper>> helpers_;  // after lanes_: joined before lanes_ is destroyed
};

}  // namespace lyre::kernel_plugin
