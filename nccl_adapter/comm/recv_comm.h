#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nccl_adapter/comm/comm.h"
#include "nccl_adapter/comm/receive_queue.h"
#include "nccl_adapter/protocol/hello.h"
#include "nccl_adapter/transport/dial.h"

namespace lyre::nccl_adapter {

/// The end that receives, and that lanes join when the peer dials.
class RecvComm final : public Comm {
 public:
  RecvComm(Environment* environment, const Hello& hello, std::string address);

  /// Takes the stream of a hello that names this comm, or says why not and leaves it. The answer is
  /// the first thing that goes back.
  AnswerCode join(const Hello& hello, Stream* stream, std::span<const uint8_t> answer);
  void on_detached() override;
  /// The sender may not notice for seconds that its streams are gone: it is told.
  void on_attached(int64_t now_ns) override;
  /// Messages that were wholly placed.
  uint64_t placed() const { return queue_.placed(); }

 private:
  Request* post_request(void* data, uint64_t bytes) override;
  RequestTable& requests() override { return queue_.requests(); }
  const RequestTable& requests() const override { return queue_.requests(); }
  bool is_sender() const override { return false; }
  void describe(nccl_abi::CommView* out) const override;
  void pump_out() override;
  bool take(Lane& lane, std::span<const uint8_t> bytes) override;
  std::vector<uint8_t> last_words() const override;
  void on_lane_lost(Lane&) override { must_tell_ = true; }
  void watch(int64_t now_ns) override;
  bool is_answer_due() const override {
    return request_ != nullptr && request_->is_hello_acknowledged();
  }
  /// True when more bytes may be offered.
  bool on_verdict(ReceiveQueue::Verdict verdict);
  void refuse_large_message();
  void follow_bye();
  void advance_request(int64_t now_ns);
  Lane* choose_lane();
  void tell(Lane& lane);
  void tell_again(int64_t now_ns);
  bool may_grant_wait() const;

  ReceiveQueue queue_;
  uint16_t streams_max_;              ///< as the sender's first hello said
  size_t heard_lane_ = 0;             ///< over which data came last: what goes back takes it, too
  Lane* heard_queue_pair_ = nullptr;  ///< the same, where it is for queue pairs
  bool must_tell_ = false;            ///< the last grant may be lost
  int64_t told_again_ns_ = 0;
  int64_t news_ns_ = 0;  ///< the last look that found nothing to tell

  lyre_addr own_{};                ///< of the last stream: this end's address
  lyre_addr sender_{};             ///< the sender's, with the port that its process listens on
  std::unique_ptr<Dial> request_;  ///< to dial again
  int64_t requested_ns_ = 0;
};

}  // namespace lyre::nccl_adapter
