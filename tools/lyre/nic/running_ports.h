#pragma once

#include <string>
#include <vector>

namespace lyre::tools {

/// The devices of the ports of the daemon behind `socket`; none where no daemon runs. Those of the
/// configuration at `config_path` where one runs that does not tell, as of another release.
std::vector<std::string> devices_in_use(const std::string& socket, const std::string& config_path);

}  // namespace lyre::tools
