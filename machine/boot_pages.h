#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "machine/files.h"

/// Hugepages of the size that packet pools take (kPacketPageKib), as a boot reserves them.
namespace lyre::machine {

/// Where systemd looks for settings: of two files with one name it reads that of the first folder.
/// Tests have folders of their own.
struct BootFolders {
  std::vector<std::string> sysctl = {"/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d",
                                     "/usr/lib/sysctl.d"};
  std::vector<std::string> tmpfiles = {"/etc/tmpfiles.d", "/run/tmpfiles.d",
                                       "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d"};
};

/// What reserves pages at boot, in the order in which a boot does it.
enum class BootSource : uint8_t { kCommandLine, kSysctl, kTmpfiles };

struct BootPages {
  uint64_t pages = 0;
  BootSource source = BootSource::kCommandLine;
  std::string file;  ///< that says so; empty: the kernel's command line
};

/// What the last source says that says anything; none: nothing does.
std::optional<BootPages> pages_at_boot(const Roots& roots, const BootFolders& folders);

/// The number that one file of sysctl.d sets vm.nr_hugepages to; none: it does not set it.
std::optional<uint64_t> pages_of_sysctl(const std::string& file);
/// The same of a file of tmpfiles.d and kPacketPagesFile.
std::optional<uint64_t> pages_of_tmpfiles(const std::string& file);

}  // namespace lyre::machine
