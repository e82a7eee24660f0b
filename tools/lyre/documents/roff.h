#pragma once

#include <string>

#include "tools/lyre/documents/command_text.h"

/// Pieces of manual pages in the man(7) language.
namespace lyre::tools {

/// Text of a line: no character of it is a command.
std::string escaped(const std::string& text);

/// A sentence that begins with a capital letter and ends.
std::string sentence(const std::string& text);

/// An option with what it does, what may follow it, and its default.
std::string option_item(const OptionText& option);

/// Title and NAME of a page. `text` says in a line what `name` is.
std::string page_head(const std::string& name, int section, const std::string& text);

}  // namespace lyre::tools
