#include "tools/lyre/doctor/plugin_file.h"

#include <cstring>

#include "machine/files.h"
#include "tools/lyre/doctor/file_limits.h"

namespace lyre::tools {
namespace {

using channel::VersionRange;
using client::ClientMark;

std::string range(const VersionRange& versions) { return channel::range_text(versions).text; }

std::string spoken(const ClientMark& mark) {
  return "control protocol " + range(mark.control) + ", channel " + range(mark.abi);
}

bool is_newer(const ClientMark& mark, const ClientMark& than) {
  return mark.control.max > than.control.max || mark.abi.max > than.abi.max;
}

}  // namespace

std::optional<ClientMark> mark_in(const std::string& file) {
  const std::string bytes = machine::regular_file(file, kLibraryBytesMax);
  const size_t found = bytes.find(std::string(client::kMarkStart) + client::kMarkEnd);
  if (found == std::string::npos || bytes.size() - found < sizeof(ClientMark)) return std::nullopt;
  ClientMark mark;
  std::memcpy(&mark, bytes.data() + found, sizeof mark);
  mark.release[sizeof mark.release - 1] = '\0';
  return mark;
}

Finding check_plugin_release(const std::string& path, const ClientMark& mark) {
  const ClientMark& own = client::own_mark();  // this command is installed with the daemon
  const std::string saw = path + ": release " + mark.release + ", " + spoken(mark);
  const bool has_common = channel::common_version(own.control, mark.control).has_value() &&
                          channel::common_version(own.abi, mark.abi).has_value();
  if (has_common) return fine("plugin", saw);
  return problem("plugin", saw + "; the daemon of release " + own.release + ": " + spoken(own),
                 "the daemon refuses it, and NCCL falls back to its own sockets",
                 is_newer(mark, own) ? "on this host: apt install ./lyre_*.deb of that release"
                                     : "in the job's image: libnccl-net-lyre.so of this release");
}

}  // namespace lyre::tools
