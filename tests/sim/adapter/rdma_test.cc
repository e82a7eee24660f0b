// The checks of the simulated RDMA network: each is shown a caller that does it wrong.
#include "tests/sim/adapter/rdma.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/nccl_adapter/support/rdma_hosts.h"

namespace lyre::adapter_sim {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

/// One end is the plugin's, the other a caller that keeps to no rule.
class RdmaWorld : public nccl_adapter::RdmaHosts {
 protected:
  RdmaWorld() : other_(make(1)) {
    const nccl_adapter::VerbsApi& api = rdma_api();
    caller_ = 0;
    int count = 0;
    ibv_device** list = api.get_device_list(&count);
    context_ = api.open_device(list[0]);
    api.free_device_list(list);
    pd_ = api.alloc_pd(context_);
    completions_ = api.create_cq(context_, 2, nullptr, nullptr, 0);
    mr_ = api.reg_mr(pd_, memory_, sizeof memory_, IBV_ACCESS_LOCAL_WRITE);
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = completions_;
    attr.cap = {.max_send_wr = 32,
                .max_recv_wr = 2,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    qp_ = api.create_qp(pd_, &attr);
    connect();
  }
  ~RdmaWorld() override {
    const nccl_adapter::VerbsApi& api = rdma_api();
    if (qp_ != nullptr) api.destroy_qp(qp_);
    if (mr_ != nullptr) api.dereg_mr(mr_);
    api.destroy_cq(completions_);
    api.dealloc_pd(pd_);
    api.close_device(context_);
    other_.reset();
  }

  void connect() {
    const nccl_adapter::QueuePairTerms peer = other_->terms();
    ibv_qp_attr attr{};
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      attr.qp_state = state;
      attr.path_mtu = IBV_MTU_1024;
      attr.dest_qp_num = peer.number;
      attr.rq_psn = peer.first_psn;
      attr.sq_psn = 7;
      attr.ah_attr.is_global = 1;
      attr.ah_attr.grh.sgid_index = 1;
      std::copy(peer.gid.begin(), peer.gid.end(), std::begin(attr.ah_attr.grh.dgid.raw));
      rdma_api().modify_qp(qp_, &attr, state == IBV_QPS_RTR ? IBV_QP_AV : IBV_QP_SQ_PSN);
    }
    std::string why;
    nccl_adapter::QueuePairTerms own = peer;
    own.number = qp_->qp_num;
    own.first_psn = 7;
    own.gid = address(0);
    EXPECT_TRUE(other_->connect(own, &why)) << why;
  }
  void send(const uint8_t* data, uint32_t bytes) {
    ibv_sge piece{.addr = reinterpret_cast<uintptr_t>(data), .length = bytes, .lkey = mr_->lkey};
    ibv_send_wr request{};
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp_, &request, &bad), 0);
  }

  uint8_t memory_[4096] = {};
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* completions_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
  std::unique_ptr<nccl_adapter::QueuePair> other_;
};

TEST_F(RdmaWorld, HasNothingAgainstWhoKeepsToTheRules) {
  send(memory_, sizeof memory_);
  pass(kMs);
  EXPECT_THAT(wrong_, IsEmpty());
  std::span<const uint8_t> bytes;
  EXPECT_EQ(other_->peek(&bytes), nccl_adapter::Io::kOk);
}

TEST_F(RdmaWorld, ObjectsToMoreSendsThanReceives) {
  for (uint32_t i = 0; i < nccl_adapter::kQueuePairSlots; ++i) {
    send(memory_, 1);
    pass(kMs);
    ibv_wc entry;
    EXPECT_EQ(ibv_poll_cq(completions_, 1, &entry), 1);
  }
  EXPECT_THAT(wrong_, IsEmpty());
  send(memory_, 1);
  pass(kMs);
  EXPECT_THAT(wrong_, Contains("a send arrives where no receive is posted"));
}

TEST_F(RdmaWorld, ObjectsToMemoryThatIsNotRegistered) {
  send(memory_ + 1, sizeof memory_);
  pass(kMs);
  EXPECT_THAT(wrong_, Contains("a send reads memory that is not registered"));
}

TEST_F(RdmaWorld, ObjectsToAWriteWhereNothingIsExposed) {
  ibv_sge piece{.addr = reinterpret_cast<uintptr_t>(memory_), .length = 1, .lkey = mr_->lkey};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(memory_);
  request.wr.rdma.rkey = mr_->rkey;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp_, &request, &bad), 0);
  pass(kMs);
  EXPECT_THAT(wrong_, Contains("a write goes to memory that is not exposed"));
}

TEST_F(RdmaWorld, ObjectsToDeregisteringWhatIsRead) {
  send(memory_, 1);
  rdma_api().dereg_mr(mr_);
  mr_ = nullptr;
  EXPECT_THAT(wrong_, Contains("memory is deregistered that a send may read"));
}

TEST_F(RdmaWorld, ObjectsToMoreCompletionsThanHaveRoom) {
  for (int i = 0; i < 3; ++i) send(memory_, 1);
  pass(kMs);
  EXPECT_THAT(wrong_, Contains("a completion queue overflows"));
}

TEST_F(RdmaWorld, ObjectsToASkippedState) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  rdma_api().modify_qp(qp_, &attr, IBV_QP_STATE);
  EXPECT_THAT(wrong_, Contains("a queue pair skips a state"));
}

TEST_F(RdmaWorld, ObjectsToADeviceThatIsClosedTooEarly) {
  ibv_context* second = rdma_api().open_device(context_->device);
  const std::unique_ptr<ibv_pd> left(rdma_api().alloc_pd(second));
  rdma_api().close_device(second);
  EXPECT_THAT(wrong_, Contains("a device is closed with objects of its"));
}

}  // namespace
}  // namespace lyre::adapter_sim
