#include "tools/lyre/allreduce/rank.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "tools/lyre/allreduce/failure.h"
#include "tools/lyre/allreduce/job_json.h"
#include "tools/lyre/allreduce/values.h"
#include "tools/lyre/allreduce/wire.h"
#include "tools/lyre/daemon_counters.h"
#include "tools/nccl_emulator/nccl_emulator.h"

namespace lyre::allreduce {
namespace {

using nccl_emulator::Bytes;
using nccl_emulator::Communicator;
using nccl_emulator::Operation;
using nccl_emulator::Protocol;
using nlohmann::json;

constexpr std::chrono::milliseconds kProgressInterval{250};

/// This rank's end of the out-of-band channel. Thread: the init thread.
class LauncherLink {
 public:
  explicit LauncherLink(int fd) : fd_(fd) {}

  void set_rank(int rank) { rank_ = static_cast<uint16_t>(rank); }

  Frame receive() {
    while (true) {
      if (std::optional<Frame> frame = reader_.next()) return *frame;
      if (!reader_.read_some(fd_)) throw Failure("the launcher has ended");
    }
  }

  void send(FrameType type, json payload) {
    if (!send_frame(fd_, {type, rank_, std::move(payload)}))
      throw Failure("the launcher has ended");
  }

  std::vector<Bytes> all_gather(const Bytes& mine) {
    send(FrameType::kGather, json::binary(mine));
    const Frame frame = receive();
    if (frame.type != FrameType::kGathered) throw Failure("unexpected frame from the launcher");
    std::vector<Bytes> all;
    for (const json& part : frame.payload) all.push_back(part.get_binary());
    return all;
  }

 private:
  int fd_;
  uint16_t rank_ = 0;
  FrameReader reader_;
};

void enter_netns(const std::string& name) {
  const std::string path = "/var/run/netns/" + name;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = fd >= 0 && ::setns(fd, CLONE_NEWNET) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!entered) throw Failure("cannot enter " + path + ": " + std::strerror(error));
}

/// Memory for the gradients of the largest bucket. It is ordinary memory, because a GPU's memory
/// would not be on the host.
class Gradients {
 public:
  explicit Gradients(const std::vector<Bucket>& buckets) {
    uint64_t most = 0;
    for (const Bucket& bucket : buckets) most = std::max(most, bucket.elements);
    values_.resize(most);
  }
  std::span<float> view(const Bucket& bucket) { return std::span(values_).first(bucket.elements); }

 private:
  std::vector<float> values_;
};

class RankRun {
 public:
  RankRun(const Job& job, LauncherLink& link, Communicator& communicator)
      : job_(job),
        link_(link),
        communicator_(communicator),
        gradients_(job.buckets),
        sync_values_(static_cast<size_t>(job.ranks) * 4) {}

  /// Runs all iterations. The first is a warm-up: it is verified and not reported.
  void run(RankResult* result) {
    for (uint32_t iteration = 0; iteration <= job_.iterations; ++iteration) {
      std::vector<uint64_t> elapsed_ns;
      for (size_t bucket = 0; bucket < job_.buckets.size(); ++bucket) {
        elapsed_ns.push_back(run_bucket(iteration, bucket));
        result->elements_verified += job_.buckets[bucket].elements;
      }
      if (iteration > 0) result->elapsed_ns.push_back(std::move(elapsed_ns));
      if (iteration == 0) processor_ns_ = 0;
    }
    result->processor_ns = processor_ns_;
  }

 private:
  uint64_t run_bucket(uint32_t iteration, size_t index) {
    const Bucket& bucket = job_.buckets[index];
    const std::span<float> values = gradients_.view(bucket);
    const ValueKey key{job_.seed, iteration, static_cast<uint32_t>(index)};
    fill_values(key, job_.rank, values);
    report_progress(iteration, index);
    // A tiny all-reduce before it makes the progress threads of all ranks start together.
    std::array<Operation, 2> operations{
        communicator_.make_operation(sync_values_, Protocol::kLl),
        communicator_.make_operation(values, choose_protocol(bucket), collective())};
    const std::span<Operation> all(operations);
    if (job_.rest_ms == 0) {
      run_operations(all, iteration, index);
    } else {
      run_operations(all.first(1), iteration, index);
      rest();
      run_operations(all.last(1), iteration, index);
    }
    verify(key, bucket, values);
    return static_cast<uint64_t>(operations[1].elapsed.count());
  }

  nccl_emulator::Collective collective() const {
    return job_.collective == kSendRecv ? nccl_emulator::Collective::kSendRecv
                                        : nccl_emulator::Collective::kAllReduce;
  }

  /// What an all-reduce sums, and whom a rank receives from.
  Summands summands() const {
    if (job_.collective == kSendRecv) return {.first = (job_.rank + job_.ranks - 1) % job_.ranks};
    return {.count = job_.ranks};
  }

  Protocol choose_protocol(const Bucket& bucket) const {
    if (job_.protocol == "ll") return Protocol::kLl;
    if (job_.protocol == "simple") return Protocol::kSimple;
    return nccl_emulator::choose_protocol(bucket.bytes());
  }

  void run_operations(std::span<Operation> operations, uint32_t iteration, size_t index) {
    const uint64_t used_before = used_processor_ns();
    communicator_.progress().submit(operations);
    wait_for_operations(iteration, index);
    processor_ns_ += used_processor_ns() - used_before;
  }

  static uint64_t used_processor_ns() {
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
  }

  /// As a job that computes. All ranks of a machine left the tiny all-reduce at nearly the same
  /// time, and rest until the same moment of its clock.
  void rest() const {
    const std::chrono::milliseconds period(job_.rest_ms);
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    std::this_thread::sleep_until(
        std::chrono::steady_clock::time_point((now / period + 2) * period));
  }

  void wait_for_operations(uint32_t iteration, size_t index) {
    uint64_t seen = communicator_.progress().steps_done();
    while (!communicator_.progress().wait(kProgressInterval)) {
      const uint64_t steps = communicator_.progress().steps_done();
      if (std::exchange(seen, steps) != steps) report_progress(iteration, index);
    }
  }

  void report_progress(uint32_t iteration, size_t index) {
    link_.send(FrameType::kProgress,
               {{"iteration", iteration}, {"bucket", index}, {"buckets", job_.buckets.size()}});
  }

  void verify(const ValueKey& key, const Bucket& bucket, std::span<const float> values) const {
    const std::optional<Mismatch> mismatch = find_mismatch(key, summands(), values);
    if (!mismatch) return;
    std::ostringstream text;
    text << "wrong result in bucket " << bucket.index << " of " << bucket.model << ", element "
         << mismatch->element << ": got " << mismatch->got << ", expected " << mismatch->expected;
    throw Failure(text.str());
  }

  const Job& job_;
  LauncherLink& link_;
  Communicator& communicator_;
  Gradients gradients_;
  std::vector<float> sync_values_;
  uint64_t processor_ns_ = 0;  ///< during all-reduces, since the warm-up
};

// The name of the kernel plugin, whose traffic does not pass through a daemon.
constexpr const char* kKernelPluginName = "Kernel";

// As the plugin reads it: RDMA is off unless it is asked for.
bool may_use_rdma() {
  const char* verbs = std::getenv("LYRE_VERBS");
  return verbs != nullptr && *verbs != '\0' && std::string_view(verbs) != "off";
}

nccl_emulator::CommunicatorConfig communicator_config(const Job& job) {
  return {.plugin_path = job.plugin_path,
          .abi = job.abi,
          .comm_id = job.comm_id,
          .rank = job.rank,
          .hosts = job.hosts,
          .channels = job.channels,
          .slice_steps = job.slice_steps,
          .connect_timeout_s = job.connect_timeout_s,
          .device_thread = job.device_thread};
}

void run_job(const Job& job, LauncherLink& link, std::unique_ptr<Communicator>* communicator) {
  for (const auto& [name, value] : job.environment) ::setenv(name.c_str(), value.c_str(), 1);
  nccl_emulator::set_log_echo(job.verbose);
  if (!job.netns.empty()) enter_netns(job.netns);
  // A missing daemon ends the command with its own exit code, so it is looked for before the
  // plugin.
  if (job.needs_daemon) (void)tools::daemon_tcp_payload_bytes(job.daemon_socket);
  *communicator = std::make_unique<Communicator>(
      communicator_config(job), [&](const Bytes& mine) { return link.all_gather(mine); });
  Communicator& ring = **communicator;
  RankResult result;
  result.plugin_name = ring.plugin().name();
  result.device_name = ring.properties().name;
  result.abi = ring.plugin().abi();
  result.speed_mbps = ring.properties().speed_mbps;
  result.has_daemon = result.plugin_name != kKernelPluginName;
  result.may_use_rdma = may_use_rdma();
  if (result.has_daemon) {
    if (job.daemon_socket.empty()) {
      throw Failure("plugin " + result.plugin_name +
                    ": give each host its daemon, --host NAME=SOCKET");
    }
    result.daemon_before = tools::daemon_tcp_payload_bytes(job.daemon_socket);
  }
  link.all_gather({});  // a barrier: all ranks have read the counters
  RankRun(job, link, ring).run(&result);
  const nccl_emulator::MovedBytes crossed = ring.crossed();
  result.crossed = {crossed.sent, crossed.received};
  link.all_gather({});  // a barrier: all ranks are done
  ring.close();
  if (result.has_daemon) {
    result.daemon_after = tools::daemon_tcp_payload_bytes(job.daemon_socket);
  }
  link.send(FrameType::kResult, result);
}

}  // namespace

int run_rank(int launcher_fd) {
  LauncherLink link(launcher_fd);
  Job job;
  std::unique_ptr<Communicator> communicator;  // after job, which it borrows
  // The error is sent before the abort that follows, which may end the process. There is no answer
  // from a launcher that is gone.
  const auto report = [&](int exit_code, const char* line) {
    send_frame(launcher_fd,
               {FrameType::kError, static_cast<uint16_t>(job.rank), RankError{exit_code, line}});
    return exit_code;
  };
  try {
    job = link.receive().payload.get<Job>();
    link.set_rank(job.rank);
    run_job(job, link, &communicator);
    return 0;
  } catch (const tools::Failure& failure) {
    return report(failure.exit_code(), failure.what());
  } catch (const std::exception& error) {
    return report(tools::kExitFailure, error.what());
  }
}

}  // namespace lyre::allreduce
