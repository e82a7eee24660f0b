#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tools/lyre/doctor/finding.h"

/// Whether NCCL would load and use the plugin in an environment.
namespace lyre::tools {

/// Variables of NCCL and Lyre: of the process, and of NCCL's configuration files where the process
/// has none. NCCL puts every line of these files in the environment. Only regular files are read.
using Settings = std::map<std::string, std::string>;
Settings nccl_settings(const char* const* environment, const std::vector<std::string>& files);
/// The same for entries "NAME=value".
Settings nccl_settings(const std::vector<std::string>& environment,
                       const std::vector<std::string>& files);
/// The configuration files that NCCL reads in this environment, the one that counts more first.
std::vector<std::string> nccl_files(const std::vector<std::string>& environment,
                                    const std::string& home);

/// What became of a library's name.
struct FoundLibrary {
  std::string path;   ///< as the job has it; empty where the loader does not say it
  std::string file;   ///< where this process reads it
  std::string wrong;  ///< why it cannot be used; empty: nothing
};
/// Finds a library as the job would.
using FindLibrary = std::function<FoundLibrary(const std::string& name)>;
/// In this process, as NCCL does: by opening it.
FoundLibrary open_plugin(const std::string& name);

/// `glibc` is the version of the job's system, as gnu_get_libc_version(3) gives it.
std::vector<Finding> check_nccl(const Settings& settings, const FindLibrary& find,
                                const std::string& glibc);

/// LYRE_* that nothing reads.
std::vector<Finding> check_setting_names(const std::vector<std::string>& names);

}  // namespace lyre::tools
