#include <cuda_runtime.h>
#include <nccl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/lyre/allreduce/values.h"

/// The real ncclAllReduce through a network plugin: several ranks on one GPU, a process each, which
/// NCCL takes for ranks of different hosts. Results are checked, and that the plugin carried them.
namespace {

constexpr int kExitSkipped = 77;
constexpr uint64_t kSeed = 11;

struct Options {
  int ranks = 2;
  std::string net = "Lyre";
  std::string plugin = "lyre";
  std::vector<std::string> sockets;  // of the daemons, for the ranks in turn
  std::vector<uint64_t> bytes{4, 4096, 1 << 20, 25 << 20};
  uint32_t iterations = 3;
  int timeout_s = 300;
};

void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

void require(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) {
    throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(result));
  }
}

class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes) { require(cudaMalloc(&data_, bytes), "cudaMalloc"); }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// One rank. Everything of CUDA happens in the child: a fork would break what it had set up.
class Rank {
 public:
  Rank(const Options& options, int rank, ncclUniqueId id) : options_(options), rank_(rank) {
    require(cudaSetDevice(0), "cudaSetDevice");
    require(cudaStreamCreate(&stream_), "cudaStreamCreate");
    require(ncclCommInitRank(&comm_, options.ranks, id, rank), "ncclCommInitRank");
  }
  ~Rank() {
    ncclCommDestroy(comm_);
    cudaStreamDestroy(stream_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void run() {
    for (uint32_t iteration = 0; iteration < options_.iterations; ++iteration) {
      for (uint32_t bucket = 0; bucket < options_.bytes.size(); ++bucket) {
        all_reduce({kSeed, iteration, bucket}, options_.bytes[bucket] / sizeof(float));
      }
    }
  }

 private:
  void all_reduce(const lyre::allreduce::ValueKey& key, size_t elements) {
    std::vector<float> values(elements);
    const size_t bytes = elements * sizeof(float);
    lyre::allreduce::fill_values(key, rank_, values);
    DeviceBuffer buffer(bytes);
    require(cudaMemcpy(buffer.data(), values.data(), bytes, cudaMemcpyHostToDevice), "copy in");
    require(
        ncclAllReduce(buffer.data(), buffer.data(), elements, ncclFloat32, ncclSum, comm_, stream_),
        "ncclAllReduce");
    require(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    require(cudaMemcpy(values.data(), buffer.data(), bytes, cudaMemcpyDeviceToHost), "copy out");
    if (const auto wrong = lyre::allreduce::find_mismatch(key, {.count = options_.ranks}, values)) {
      std::ostringstream text;
      text << "bucket " << key.bucket << ", element " << wrong->element << ": got " << wrong->got
           << ", expected " << wrong->expected;
      throw std::runtime_error(text.str());
    }
  }

  const Options& options_;
  int rank_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
};

/// Files that end with this program.
class ScratchDir {
 public:
  ScratchDir() {
    std::string name = (std::filesystem::temp_directory_path() / "lyre-nccl-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~ScratchDir() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  std::string log_of(int rank) const {
    return (path_ / ("rank" + std::to_string(rank) + ".log")).string();
  }

 private:
  std::filesystem::path path_;
};

void set_environment(const Options& options, int rank, const std::string& log) {
  ::setenv("NCCL_HOSTID", ("lyre-test-host-" + std::to_string(rank)).c_str(), 1);
  ::setenv("NCCL_NET", options.net.c_str(), 1);  // any other network is an error, not a fallback
  ::setenv("NCCL_NET_PLUGIN", options.plugin.c_str(), 1);
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_SUBSYS", "INIT,NET,GRAPH", 1);
  ::setenv("NCCL_DEBUG_FILE", log.c_str(), 1);
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  if (options.sockets.empty()) return;
  const size_t index = static_cast<size_t>(rank) % options.sockets.size();
  ::setenv("LYRE_SOCKET", options.sockets[index].c_str(), 1);
}

/// Gives rank 0's id to the others: one pipe each, written before anything is read.
class IdExchange {
 public:
  explicit IdExchange(int ranks) : pipes_(static_cast<size_t>(ranks)) {
    for (auto& ends : pipes_) {
      if (::pipe(ends.data()) != 0) throw std::runtime_error("pipe failed");
    }
  }

  ncclUniqueId exchange(int rank) {
    ncclUniqueId id{};
    if (rank == 0) {
      require(ncclGetUniqueId(&id), "ncclGetUniqueId");
      for (auto& ends : pipes_) {
        if (::write(ends[1], &id, sizeof(id)) != sizeof(id)) throw std::runtime_error("pipe");
      }
    }
    // Only rank 0 may still write: were it to die, the others must see the end of the pipe.
    for (auto& ends : pipes_) ::close(ends[1]);
    if (::read(pipes_[static_cast<size_t>(rank)][0], &id, sizeof(id)) != sizeof(id)) {
      throw std::runtime_error("rank 0 gave no id");
    }
    return id;
  }

  void close_in_parent() {
    for (auto& ends : pipes_) {
      ::close(ends[0]);
      ::close(ends[1]);
    }
  }

 private:
  std::vector<std::array<int, 2>> pipes_;
};

int run_child(const Options& options, int rank, const std::string& log, IdExchange* exchange) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_environment(options, rank, log);
  try {
    const ncclUniqueId id = exchange->exchange(rank);
    Rank(options, rank, id).run();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "nccl_allreduce: rank " << rank << ": " << error.what() << std::endl;
    return 1;
  }
}

bool wait_for_all(std::vector<pid_t> pids, int timeout_s) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_s);
  bool good = true;
  while (!pids.empty()) {
    for (auto it = pids.begin(); it != pids.end();) {
      int status = 0;
      if (::waitpid(*it, &status, WNOHANG) != *it) {
        ++it;
        continue;
      }
      good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
      it = pids.erase(it);
    }
    // The ranks that are left would wait for the one that failed.
    if (!good || std::chrono::steady_clock::now() > deadline) break;
    ::usleep(20'000);
  }
  for (const pid_t pid : pids) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  if (good && !pids.empty()) std::cerr << "nccl_allreduce: not finished in time" << std::endl;
  return good && pids.empty();
}

bool log_shows_plugin(const std::string& path, const std::string& net) {
  std::ifstream file(path);
  const std::string wanted = "via NET/" + net;
  for (std::string line; std::getline(file, line);) {
    if (line.find(wanted) != std::string::npos) return true;
  }
  std::cerr << "nccl_allreduce: " << path << " does not say '" << wanted << "'" << std::endl;
  return false;
}

// Asked in a process of its own, because a fork after the first CUDA call would be unusable.
bool has_gpu() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    int count = 0;
    ::_exit(cudaGetDeviceCount(&count) == cudaSuccess && count > 0 ? 0 : 1);
  }
  int status = 0;
  return pid > 0 && ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

int run(const Options& options) {
  if (!has_gpu()) {
    std::cout << "SKIPPED: no GPU here, so the real NCCL was NOT run" << std::endl;
    return kExitSkipped;
  }
  const ScratchDir scratch;
  IdExchange exchange(options.ranks);
  std::vector<pid_t> pids;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(run_child(options, rank, scratch.log_of(rank), &exchange));
    if (pid > 0) pids.push_back(pid);
  }
  exchange.close_in_parent();
  const bool all_started = pids.size() == static_cast<size_t>(options.ranks);
  bool good = wait_for_all(std::move(pids), options.timeout_s) && all_started;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const bool shown = log_shows_plugin(scratch.log_of(rank), options.net);
    good = good && shown;
    if (!good) std::cerr << std::ifstream(scratch.log_of(rank)).rdbuf() << std::endl;
  }
  if (good) {
    std::cout << options.ranks << " ranks, " << options.bytes.size() << " sizes, "
              << options.iterations << " iterations, verified, via NET/" << options.net
              << std::endl;
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("the real ncclAllReduce through a network plugin");
  app.add_option("--ranks", options.ranks, "ranks, all on GPU 0")->check(CLI::Range(2, 8));
  app.add_option("--net", options.net, "name of the network, as NCCL_NET wants it");
  app.add_option("--plugin", options.plugin, "plugin, as NCCL_NET_PLUGIN wants it");
  app.add_option("--socket", options.sockets, "socket of a daemon; ranks take them in turn");
  app.add_option("--bytes", options.bytes, "sizes to reduce");
  app.add_option("--iterations", options.iterations, "passes over the sizes");
  app.add_option("--timeout", options.timeout_s, "seconds for everything");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::cerr << "nccl_allreduce: " << error.what() << std::endl;
    return 1;
  }
}
