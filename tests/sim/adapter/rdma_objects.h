#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "nccl_adapter/transport/verbs/library.h"

/// What the handles of infiniband/verbs.h are in the simulator: each begins with the struct that
/// the plugin sees.
namespace lyre::adapter_sim {

struct RdmaDevice {
  ibv_device device{};
  size_t host = 0;
  uint8_t gid[16] = {};
  uint32_t inline_bytes_max = 256;  ///< what is asked for beyond this is not granted
  bool is_link_up = true;
  bool is_there = true;
  bool is_deleted = false;    ///< and the kernel waits for who has it open
  bool has_returned = false;  ///< another one has its name and address now
};

struct RdmaMemory {
  ibv_mr mr{};
  int access = 0;
};

struct RdmaContext {
  ibv_context context{};
  RdmaDevice* device = nullptr;
  uint32_t process = 0;
  bool is_gone = false;  ///< its device, or its process
  std::deque<ibv_async_event> events;
  std::vector<std::unique_ptr<RdmaMemory>> mrs;
  size_t objects = 0;  ///< protection domains and completion queues
};

struct RdmaCompletions {
  ibv_cq cq{};
  struct Entry {
    ibv_wc wc;
    int64_t at_ns;  ///< when it can be polled
  };
  std::deque<Entry> entries;
  size_t capacity = 0;
  int64_t last_ns = 0;
};

struct RdmaQueuePair {
  struct Send {
    uint64_t wr_id;
    bool is_signalled;
    bool has_arrived = false;
    std::vector<uint8_t> inlined;
    std::vector<ibv_sge> pieces;  ///< where that is empty
    bool is_write = false;
    uint64_t remote_addr = 0;  ///< of a write, as below
    uint32_t rkey = 0;
  };
  struct Receive {
    uint64_t wr_id;
    ibv_sge piece;
  };

  ibv_qp qp{};
  uint64_t id = 0;
  RdmaContext* context = nullptr;
  RdmaCompletions* completions = nullptr;
  ibv_qp_cap cap{};
  uint8_t remote_gid[16] = {};
  uint32_t remote_number = 0;
  uint32_t next_psn = 0;      ///< of what it sends
  uint32_t expected_psn = 0;  ///< of what it receives
  std::deque<Send> sends;     ///< not acknowledged
  std::deque<Receive> receives;
  bool is_sending = false;
  bool takes_writes = false;
  int retries = 0;
  int64_t retry_ns = 0;  ///< between two of them

  bool works() const {
    return !context->is_gone && (qp.state == IBV_QPS_RTR || qp.state == IBV_QPS_RTS);
  }
  bool can_send() const { return works() && qp.state == IBV_QPS_RTS; }
};

}  // namespace lyre::adapter_sim
