#pragma once

#include <string>

#include "tools/lyre/documents/command_text.h"

namespace lyre::tools {

/// A manual page in the man(7) language: of `lyre` itself, or of one command of it with all
/// commands below. `root` is `lyre`.
std::string man_page(const CommandText& root, const CommandText& command);

/// The name of the page: "lyre-sessions". Its section is 1.
std::string man_page_name(const CommandText& command);

}  // namespace lyre::tools
