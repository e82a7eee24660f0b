#pragma once

#include <string>

#include "tools/lyre/documents/command_text.h"

namespace lyre::tools {

/// Completion of commands, options and the values of options, as each shell loads it.
std::string bash_completion(const CommandText& root);
std::string zsh_completion(const CommandText& root);
std::string fish_completion(const CommandText& root);

}  // namespace lyre::tools
