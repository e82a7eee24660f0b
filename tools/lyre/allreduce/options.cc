#include "tools/lyre/allreduce/options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "tools/lyre/allreduce/failure.h"
#include "tools/lyre/daemon_counters.h"

namespace lyre::allreduce {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultSocket = "/run/lyre/lyred.sock";
constexpr const char* kLyrePlugin = "libnccl-net-lyre.so";
constexpr const char* kKernelPlugin = "libnccl-net-kernel.so";

struct NamedValue {
  std::string name;
  std::string value;
};

NamedValue split_named(const std::string& option, const std::string& text) {
  const size_t at = text.find('=');
  if (at == 0 || at == std::string::npos || at + 1 == text.size()) {
    throw UsageError(option + " " + text + ": NAME=VALUE is wanted");
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

Host& find_host(std::vector<Host>& hosts, const std::string& option, const std::string& name) {
  const auto it =
      std::find_if(hosts.begin(), hosts.end(), [&](const Host& host) { return host.name == name; });
  if (it == hosts.end()) throw UsageError(option + ": there is no --host named " + name);
  return *it;
}

Host this_host(const std::string& socket_path) {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) name[0] = '\0';
  const char* set = std::getenv("LYRE_SOCKET");
  const std::string other = set != nullptr ? set : kDefaultSocket;
  return {.name = name[0] != '\0' ? name.data() : "here",
          .daemon_socket = socket_path.empty() ? other : socket_path};
}

std::vector<Host> make_hosts(const Options& options) {
  std::vector<Host> hosts;
  if (!options.hosts.empty() && !options.socket_path.empty()) {
    throw UsageError("--socket and --host exclude each other: --host NAME=SOCKET names the daemon");
  }
  for (const std::string& text : options.hosts) {
    // A host without a socket has no daemon. Plugins other than Lyre's do not need one.
    const bool is_bare = !text.empty() && text.find('=') == std::string::npos;
    NamedValue named = is_bare ? NamedValue{text, ""} : split_named("--host", text);
    const bool taken = std::any_of(hosts.begin(), hosts.end(),
                                   [&](const Host& host) { return host.name == named.name; });
    if (taken) throw UsageError("--host " + named.name + " is given twice");
    hosts.push_back({.name = named.name, .daemon_socket = named.value});
  }
  const bool several_machines = !options.listen.empty() || !options.join.empty();
  if (hosts.empty() && several_machines) hosts.push_back(this_host(options.socket_path));
  if (hosts.empty()) hosts = {{.name = "A"}, {.name = "B"}};
  for (const std::string& text : options.kernel_addresses) {
    NamedValue named = split_named("--kernel-addr", text);
    find_host(hosts, "--kernel-addr", named.name).kernel_address = named.value;
  }
  for (const std::string& text : options.kernel_netns) {
    NamedValue named = split_named("--kernel-netns", text);
    find_host(hosts, "--kernel-netns", named.name).kernel_netns = named.value;
  }
  return hosts;
}

fs::path executable_dir() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

// A plugin in the build folder is preferred to an installed one, which the loader finds.
std::string find_plugin(const std::string& name, const fs::path& build_dir,
                        const fs::path& installed_dir) {
  if (name.find('/') != std::string::npos) return name;
  std::error_code error;
  for (const fs::path& dir : {executable_dir() / build_dir, installed_dir}) {
    const fs::path file = (dir / name).lexically_normal();
    if (fs::exists(file, error)) return file.string();
  }
  return name;
}

bool needs_daemon(const std::string& plugin_path) {
  return fs::path(plugin_path).filename() == kLyrePlugin;
}

std::string find_kernel_plugin(const Options& options) {
  if (options.no_kernel) return "";
  if (!options.kernel_plugin.empty()) return options.kernel_plugin;
  std::string path = find_plugin(kKernelPlugin, "../kernel_plugin", LYRE_PRIVATE_LIB_DIR);
  if (path != kKernelPlugin) return path;
  throw UsageError(
      std::string(kKernelPlugin) +
      " was not found: give --kernel-plugin PATH, or --no-kernel to skip the comparison");
}

uint64_t random_id() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

Machine make_machine(const Options& options) {
  Machine machine;
  machine.hosts = make_hosts(options);
  machine.local_ranks = options.local_ranks > 0 ? options.local_ranks : options.ranks;
  if (machine.local_ranks > options.ranks) {
    throw UsageError("--local-ranks " + std::to_string(options.local_ranks) +
                     " is more than --ranks");
  }
  if (options.join.empty() && options.listen.empty() && machine.local_ranks < options.ranks) {
    throw UsageError("--local-ranks needs --listen or --join");
  }
  machine.plugin_path = options.plugin == kLyrePlugin
                            ? find_plugin(kLyrePlugin, "../../nccl_adapter", LYRE_LIB_DIR)
                            : options.plugin;
  const bool has_daemons =
      std::all_of(machine.hosts.begin(), machine.hosts.end(),
                  [](const Host& host) { return !host.daemon_socket.empty(); });
  if (needs_daemon(machine.plugin_path) && !has_daemons) {
    throw UsageError("give each host its daemon: --host NAME=SOCKET, two times or more");
  }
  machine.kernel_plugin_path = find_kernel_plugin(options);
  return machine;
}

void check_daemons(const Machine& machine) {
  if (!needs_daemon(machine.plugin_path)) return;
  for (const Host& host : machine.hosts) (void)tools::daemon_tcp_payload_bytes(host.daemon_socket);
}

std::vector<Bucket> make_buckets(const Options& options) {
  std::vector<Bucket> buckets;
  uint32_t index = 0;
  for (const uint64_t bytes : options.bytes) {
    if (bytes == 0 || bytes % sizeof(float) != 0) {
      throw UsageError("--bytes " + std::to_string(bytes) + ": a multiple of 4 is wanted");
    }
    buckets.push_back({"sizes", index++, 1, bytes / sizeof(float)});
  }
  if (!buckets.empty()) return buckets;
  const std::string file = find_model_file();
  for (const std::string& model : options.models) {
    for (Bucket& bucket : cut_buckets(model, load_model(file, model))) {
      buckets.push_back(std::move(bucket));
    }
  }
  return buckets;
}

Job make_job(const Options& options, std::vector<Bucket> buckets) {
  Job job;
  job.seed = options.seed;
  job.comm_id = random_id();
  job.iterations = options.iterations;
  job.rest_ms = options.rest_ms;
  job.ranks = options.ranks;
  job.channels = options.channels;
  job.slice_steps = options.slice_steps;
  job.connect_timeout_s = options.connect_timeout_s;
  job.abi = options.abi;
  job.collective = options.collective;
  job.protocol = options.protocol;
  job.device_thread = options.device_thread;
  job.verbose = options.verbose;
  job.buckets = std::move(buckets);
  return job;
}

void complete_job(const Machine& machine, Job* job) {
  const auto host =
      std::find_if(machine.hosts.begin(), machine.hosts.end(),
                   [&](const Host& candidate) { return candidate.name == job->host; });
  if (host == machine.hosts.end()) throw Failure("no host named " + job->host + " here");
  job->environment.clear();
  job->daemon_socket.clear();
  job->environment["LYRE_KERNEL_ADDR"] = host->kernel_address;
  job->netns = host->kernel_netns;
  if (job->transport == kTransportPlugin) {
    job->plugin_path = machine.plugin_path;
    if (host->daemon_socket.empty()) return;
    job->daemon_socket = host->daemon_socket;
    job->needs_daemon = needs_daemon(machine.plugin_path);
    job->environment["LYRE_SOCKET"] = host->daemon_socket;
    job->netns.clear();  // the daemon owns the port
    return;
  }
  const bool striped = job->transport == kTransportKernelStriped;
  job->plugin_path = machine.kernel_plugin_path;
  job->abi = 0;
  job->environment["LYRE_KERNEL_SOCKS"] = striped ? "16" : "1";
  job->environment["LYRE_KERNEL_THREADS"] = striped ? "2" : "0";
}

}  // namespace lyre::allreduce
