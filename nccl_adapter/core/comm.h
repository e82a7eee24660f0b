#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nccl_adapter/abi/common.h"
#include "nccl_adapter/core/receive_queue.h"
#include "nccl_adapter/core/send_queue.h"
#include "nccl_adapter/core/stream.h"

namespace lyre::nccl_adapter {

class Instance;

/// Who is at the other end, for messages.
struct Peer {
  std::string host;
  uint32_t pid = 0;
  std::string address;
  std::string describe() const;
};

/// A region that NCCL registered; the adapter only needs it to know when to let go.
struct Registration {
  const uint8_t* base;
  uint64_t bytes;
};

/// One NCCL connection, seen from one end: an ordered stream of messages in one direction.
/// Thread: under the instance's lock. Owner: the instance.
class Comm : public SessionOwner {
 public:
  Comm(Instance* instance, Stream stream, Peer peer);
  virtual ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  Instance* instance() const { return instance_; }

  /// isend or irecv. *out is nullptr with kSuccess when all requests are in use.
  nccl_abi::Result post(void* data, uint64_t bytes, Request** out);
  nccl_abi::Result test(Request* request, int* done, int* sizes);
  Registration* add_registration(const void* data, uint64_t bytes);
  /// After this nobody touches the region; a request that would have is cancelled, and the comm
  /// with it.
  nccl_abi::Result remove_registration(const Registration* registration);

  /// Starts the end: says goodbye when all is well, aborts when requests are in flight.
  void begin_close();
  /// Whether the goodbye is acknowledged, or nobody is there to do so.
  bool is_close_done();
  /// Leaves the session to the daemon, which finishes in order.
  void finish_close();

  /// Moves what can be moved.
  void pump();
  void on_ready() override { pump(); }

 protected:
  virtual Request* post_request(void* data, uint64_t bytes) = 0;
  virtual void release_request(Request* request) = 0;
  virtual size_t active() const = 0;
  virtual uint64_t outstanding_bytes() const = 0;
  virtual bool touches(const uint8_t* base, uint64_t bytes) const = 0;
  virtual const char* direction_text() const = 0;
  /// Sends what may be sent. True when something moved.
  virtual bool pump_out() = 0;
  /// Takes what has come. True when something moved.
  virtual bool pump_in() = 0;

  /// Ends the comm with a reason, which the next call that needs the comm reports. The first wins.
  void fail(nccl_abi::Result result, std::string why);
  /// The same for what the stream says.
  void fail_with_stream_error();
  void on_stream_finished();
  void on_bye();
  bool has_failed() const { return result_ != nccl_abi::Result::kSuccess; }

  Stream stream_;
  Peer peer_;

 private:
  nccl_abi::Result report();
  void keep_alive(bool moved);

  Instance* instance_;
  nccl_abi::Result result_ = nccl_abi::Result::kSuccess;
  std::string why_;
  bool is_reported_ = false;
  int64_t quiet_since_ns_ = 0;  ///< 0: something moved since
  uint32_t quiet_pumps_ = 0;
  std::vector<std::unique_ptr<Registration>> registrations_;
};

class SendComm final : public Comm {
 public:
  SendComm(Instance* instance, Stream stream, Peer peer);

 private:
  Request* post_request(void* data, uint64_t bytes) override { return queue_.post(data, bytes); }
  void release_request(Request* request) override { queue_.release(request); }
  size_t active() const override { return queue_.active(); }
  uint64_t outstanding_bytes() const override { return queue_.outstanding_bytes(); }
  bool touches(const uint8_t* base, uint64_t bytes) const override {
    return queue_.reads(base, bytes);
  }
  const char* direction_text() const override { return "sends to"; }
  bool pump_out() override;
  bool pump_in() override;
  void take(std::span<const uint8_t> bytes);
  void on_frame();
  void on_fail_frame();

  SendQueue queue_;
  FrameReader reader_;
  std::string fail_text_;
};

class RecvComm final : public Comm {
 public:
  RecvComm(Instance* instance, Stream stream, Peer peer);

 private:
  Request* post_request(void* data, uint64_t bytes) override { return queue_.post(data, bytes); }
  void release_request(Request* request) override { queue_.release(request); }
  size_t active() const override { return queue_.active(); }
  uint64_t outstanding_bytes() const override { return queue_.outstanding_bytes(); }
  bool touches(const uint8_t* base, uint64_t bytes) const override {
    return queue_.writes(base, bytes);
  }
  const char* direction_text() const override { return "receives from"; }
  bool pump_out() override;
  bool pump_in() override;
  bool on_verdict(ReceiveQueue::Verdict verdict);
  void refuse_large_message();

  ReceiveQueue queue_;
};

}  // namespace lyre::nccl_adapter
