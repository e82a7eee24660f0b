#include "tools/lyre/doctor/nccl_checks.h"

#include <dlfcn.h>
#include <strings.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string_view>

namespace lyre::tools {
namespace {

constexpr std::string_view kNcclPrefix = "NCCL_";
/// The symbol that every version of the plugin has; NCCL takes the newest that it knows.
constexpr const char* kOldestTable = "ncclNetPlugin_v8";
constexpr int kGlibcMinor = 28;

std::string value_of(const Settings& settings, const std::string& name) {
  const auto it = settings.find(name);
  return it != settings.end() ? it->second : "";
}

/// NCCL_NET_PLUGIN may be a path, the name of a file, or what stands between libnccl-net- and .so.
std::vector<std::string> libraries_of(const std::string& plugin) {
  if (plugin.find('/') != std::string::npos) return {plugin};
  return {plugin, "libnccl-net-" + plugin + ".so"};
}

Finding check_plugin(const Settings& settings, const LoadLibrary& load) {
  const std::string plugin = value_of(settings, "NCCL_NET_PLUGIN");
  if (plugin.empty()) {
    return note("nccl plugin", "NCCL_NET_PLUGIN is not set", "NCCL looks for libnccl-net.so only",
                "export NCCL_NET_PLUGIN=lyre");
  }
  std::string wrong;
  for (const std::string& library : libraries_of(plugin)) {
    wrong = load(library);
    if (wrong.empty()) return fine("nccl plugin", "NCCL_NET_PLUGIN=" + plugin + " loads");
  }
  return problem("nccl plugin", "NCCL_NET_PLUGIN=" + plugin + ": " + wrong,
                 "NCCL falls back to its own sockets",
                 "ldconfig, or LD_LIBRARY_PATH=DIRECTORY of libnccl-net-lyre.so");
}

Finding check_net(const Settings& settings) {
  const std::string net = value_of(settings, "NCCL_NET");
  if (net.empty()) {
    return note("nccl net", "NCCL_NET is not set",
                "a rank whose daemon is away falls back to sockets, and the job hangs or is slow",
                "export NCCL_NET=Lyre");
  }
  // NCCL compares without case.
  if (::strcasecmp(net.c_str(), "Lyre") == 0) return fine("nccl net", "NCCL_NET=" + net);
  return problem("nccl net", "NCCL_NET=" + net, "NCCL takes that network and not Lyre",
                 "export NCCL_NET=Lyre");
}

Finding check_glibc(const std::string& glibc) {
  int major = 0;
  int minor = 0;
  std::sscanf(glibc.c_str(), "%d.%d", &major, &minor);
  if (major > 2 || (major == 2 && minor >= kGlibcMinor)) return fine("glibc", glibc);
  return problem("glibc", glibc, "the plugin needs 2.28 or later", "use a newer image for the job");
}

}  // namespace

Settings nccl_settings(const char* const* environment, const std::vector<std::string>& files) {
  Settings settings;
  for (; *environment != nullptr; ++environment) {
    const std::string entry = *environment;
    const size_t equals = entry.find('=');
    if (entry.starts_with(kNcclPrefix))
      settings[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  for (const std::string& path : files) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      const size_t equals = line.find('=');
      if (!line.starts_with(kNcclPrefix) || equals == std::string::npos) continue;
      settings.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return settings;
}

std::string load_plugin(const std::string& name) {
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return ::dlerror();
  const bool has_table = ::dlsym(library, kOldestTable) != nullptr;
  ::dlclose(library);
  return has_table ? "" : name + " has no " + kOldestTable;
}

std::vector<Finding> check_nccl(const Settings& settings, const LoadLibrary& load,
                                const std::string& glibc) {
  return {check_plugin(settings, load), check_net(settings), check_glibc(glibc)};
}

}  // namespace lyre::tools
