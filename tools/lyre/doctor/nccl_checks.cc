#include "tools/lyre/doctor/nccl_checks.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string_view>

#include "machine/files.h"
#include "nccl_adapter/abi/nccl_settings.h"
#include "nccl_adapter/abi/setting_names.h"
#include "tools/lyre/doctor/file_limits.h"
#include "tools/lyre/doctor/plugin_file.h"

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

bool is_of_interest(const std::string& entry) {
  return entry.starts_with(kNcclPrefix) || entry.starts_with(nccl_abi::kSettingPrefix);
}

/// NCCL_NET_PLUGIN is a list from NCCL 2.27 on. An item may be a path, the name of a file, or what
/// stands between libnccl-net- and .so.
std::vector<std::string> libraries_of(const std::string& plugins) {
  std::vector<std::string> names;
  std::istringstream list(plugins);
  for (std::string plugin; std::getline(list, plugin, ',');) {
    names.push_back(plugin);
    if (plugin.find('/') == std::string::npos) names.push_back("libnccl-net-" + plugin + ".so");
  }
  return names;
}

std::vector<Finding> check_plugin(const Settings& settings, const FindLibrary& find) {
  const std::string plugin = value_of(settings, "NCCL_NET_PLUGIN");
  if (plugin.empty()) {
    return {note("nccl plugin", "NCCL_NET_PLUGIN is not set", "NCCL looks for libnccl-net.so only",
                 "export NCCL_NET_PLUGIN=lyre")};
  }
  const std::string setting = "NCCL_NET_PLUGIN=" + plugin + ": ";
  FoundLibrary other;
  std::string wrong;
  for (const std::string& name : libraries_of(plugin)) {
    const FoundLibrary found = find(name);
    if (!found.wrong.empty()) {
      wrong = found.wrong;
      continue;
    }
    if (const auto mark = mark_in(found.file)) {
      return {fine("nccl plugin", setting + found.path), check_plugin_release(found.path, *mark)};
    }
    other = found;
  }
  if (!other.path.empty()) {
    return {note("nccl plugin", setting + other.path + " is no plugin of Lyre, or an old one",
                 "whether it speaks with the daemon is not known",
                 "in the job's image: apt install ./lyre-nccl_*.deb, or copy libnccl-net-lyre.so")};
  }
  return {problem("nccl plugin", setting + wrong, "NCCL falls back to its own sockets",
                  "ldconfig, or LD_LIBRARY_PATH=DIRECTORY of libnccl-net-lyre.so")};
}

/// Which NCCL the job has is not known here.
Finding check_reload(const Settings& settings) {
  const std::string name = nccl_abi::kPluginUsersSetting;
  const std::string value = value_of(settings, name);
  const std::string saw = name + (value.empty() ? " is not set" : "=" + value);
  if (nccl_abi::keeps_plugin(value.c_str())) return fine("nccl reload", saw);
  return note(
      "nccl reload", saw,
      "after its last communicator NCCL 2.28.3 to 2.29.7 loses the plugin, and the next one "
      "of the process fails or uses sockets",
      "export " + name + "=1");
}

Finding check_net(const Settings& settings) {
  const std::string net = value_of(settings, "NCCL_NET");
  if (net.empty()) {
    return note("nccl net", "NCCL_NET is not set",
                "a rank whose daemon is away falls back to sockets, and the job hangs or is slow",
                "export NCCL_NET=Lyre");
  }
  if (nccl_abi::names_lyre(net.c_str())) return fine("nccl net", "NCCL_NET=" + net);
  return problem("nccl net", "NCCL_NET=" + net, "NCCL takes that network and not Lyre",
                 "export NCCL_NET=Lyre");
}

Finding check_glibc(const std::string& glibc) {
  int major = 0;
  int minor = 0;
  std::sscanf(glibc.c_str(), "%d.%d", &major, &minor);
  if (major > 2 || (major == 2 && minor >= kGlibcMinor)) return fine("glibc", glibc);
  return problem("glibc", glibc.empty() ? "not known" : glibc, "the plugin needs 2.28 or later",
                 "use a newer image for the job");
}

}  // namespace

Settings nccl_settings(const std::vector<std::string>& environment,
                       const std::vector<std::string>& files) {
  Settings settings;
  const auto take = [&settings](const std::string& entry) {
    const size_t equals = entry.find('=');
    if (!is_of_interest(entry) || equals == std::string::npos) return;
    settings.emplace(entry.substr(0, equals), entry.substr(equals + 1));  // the first one counts
  };
  std::ranges::for_each(environment, take);
  for (const std::string& path : files) {
    std::istringstream lines(machine::regular_file(path, kTextFileBytesMax));
    for (std::string line; std::getline(lines, line);) take(line);
  }
  return settings;
}

Settings nccl_settings(const char* const* environment, const std::vector<std::string>& files) {
  std::vector<std::string> entries;
  for (; *environment != nullptr; ++environment) entries.emplace_back(*environment);
  return nccl_settings(entries, files);
}

std::vector<std::string> nccl_files(const std::vector<std::string>& environment,
                                    const std::string& home) {
  constexpr std::string_view kFile = "NCCL_CONF_FILE=";
  std::string first = home + "/.nccl.conf";
  for (const std::string& entry : environment) {
    if (entry.starts_with(kFile) && entry.size() > kFile.size()) {
      first = entry.substr(kFile.size());
    }
  }
  return {first, "/etc/nccl.conf"};
}

FoundLibrary open_plugin(const std::string& name) {
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {.path = {}, .file = {}, .wrong = ::dlerror()};
  const bool has_table = ::dlsym(library, kOldestTable) != nullptr;
  link_map* place = nullptr;
  const bool is_placed = ::dlinfo(library, RTLD_DI_LINKMAP, &place) == 0 && place != nullptr;
  const std::string path = is_placed ? place->l_name : name;
  ::dlclose(library);
  if (!has_table) return {.path = {}, .file = {}, .wrong = name + " has no " + kOldestTable};
  return {.path = path, .file = path, .wrong = {}};
}

std::vector<Finding> check_nccl(const Settings& settings, const FindLibrary& find,
                                const std::string& glibc) {
  std::vector<Finding> findings = check_plugin(settings, find);
  if (findings.front().verdict == Verdict::kFine) findings.push_back(check_reload(settings));
  findings.push_back(check_net(settings));
  findings.push_back(check_glibc(glibc));
  std::vector<std::string> names;
  for (const auto& [name, value] : settings) names.push_back(name);
  for (Finding& finding : check_setting_names(names)) findings.push_back(std::move(finding));
  return findings;
}

std::vector<Finding> check_setting_names(const std::vector<std::string>& names) {
  std::vector<const char*> environment;
  for (const std::string& name : names) environment.push_back(name.c_str());
  environment.push_back(nullptr);
  std::vector<Finding> findings;
  for (const std::string& line : nccl_abi::unknown_settings(environment.data())) {
    findings.push_back(problem("settings", line, "what it was meant to set keeps its default",
                               "correct the name"));
  }
  return findings;
}

}  // namespace lyre::tools
