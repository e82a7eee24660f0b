#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/adapter/network_settings.h"

/// What a world is made of and what happens to it: all that a seed decides.
namespace lyre::adapter_sim {

struct MessagePlan {
  uint32_t bytes = 0;
  uint32_t posted_bytes = 0;  ///< of the receive: at least as many, but for a mismatch
  int64_t send_pause_ns = 0;  ///< before isend
  int64_t receive_pause_ns = 0;
  int64_t send_at_ns = 0;  ///< of the world: not before
  int64_t receive_at_ns = 0;
};

/// One NCCL connection.
struct LinkPlan {
  size_t from = 0;
  size_t to = 0;
  int from_device = 0;
  int to_device = 0;
  int64_t handle_ns = 0;  ///< what the bootstrap takes to bring the handle over
  size_t in_flight_max = 8;
  bool is_registered = true;
  bool tests_any_request = false;  ///< not the oldest only
  bool tries_group = false;        ///< the receiver asks for two buffers in one request first
  std::vector<MessagePlan> messages;
};

struct RankPlan {
  size_t host = 0;
  int64_t start_ns = 0;
  int64_t turn_ns = 20 * kUs;      ///< between looks while there is something to do
  bool leaves_comms_open = false;  ///< to finalize
  int64_t close_pause_ns = 0;
  int verbs_mode = 2;
  int abi = 12;  ///< of the table through which it calls the plugin
};

struct Fault {
  enum class Kind {
    kReset,       ///< a connection is reset by the network
    kBlackhole,   ///< a connection's packets vanish
    kSlow,        ///< a connection's path is slow
    kRail,        ///< a port goes down
    kNeighbours,  ///< a port and those that follow it go down
    kCut,         ///< nothing gets through between two ports
    kDaemonDies,
    kDaemonStops,   ///< in order
    kDaemonPauses,  ///< its process stands still
    kRankPauses,
    kRankDies,
    kHostDies,
    kRankAborts,
    kQueuePairBreaks,
    kDevicesVanish,  ///< RDMA devices of a host, and it is told
    kDevicesFall,    ///< the same without a word
    kRdmaCut,        ///< nothing gets through between the RDMA devices of two hosts
  };
  Kind kind;
  int64_t at_ns = 0;
  int64_t lasts_ns = 0;
  size_t host = 0;  ///< or rank
  size_t rail = 0;
  size_t peer = 0;
  size_t peer_rail = 0;
};

const char* name_of(Fault::Kind kind);

struct Plan {
  std::string scenario;
  uint64_t seed = 0;
  NetworkSettings network;
  int streams = 0;  ///< LYRE_STREAMS; 0: not set
  bool uses_all_rails = false;
  int peer_timeout_s = 30;
  int resume_s = 10;
  std::vector<RankPlan> ranks;
  std::vector<LinkPlan> links;
  std::vector<Fault> faults;
  bool must_complete = true;         ///< what happens may not end a comm
  bool checks_rails = false;         ///< every stream takes the rails that NCCL chose
  bool checks_return = false;        ///< at last every stream is back on its own pair
  bool checks_dials = false;         ///< every stream is dialled once
  bool checks_death = false;         ///< waiting ranks learn of a death at once
  bool checks_resume = false;        ///< all streams are there again soon after a daemon is
  bool ends_soon = false;            ///< within seconds, whatever broke
  std::vector<size_t> rdma_devices;  ///< of each host; empty: nobody has libibverbs
  bool is_rdma_one_network = false;  ///< of all devices
  bool checks_queue_pairs = false;   ///< at last each link has one
  bool breaks_writes = false;        ///< queue pairs break while a write is under way
  uint64_t bytes_per_s_min = 0;      ///< of all links, for half a second from rate_from_ns on
  int64_t rate_from_ns = 0;          ///< 0: the rate is not checked
  int64_t stays_ns = 0;              ///< no rank closes before
  int64_t bound_ns = 0;              ///< everything is over then
};

const std::vector<std::string>& scenarios();
Plan make_plan(const std::string& scenario, uint64_t seed);

}  // namespace lyre::adapter_sim
