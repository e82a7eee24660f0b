#pragma once

#include <algorithm>
#include <string>

namespace lyre::tools {

/// For text of other users that goes to a terminal: each byte that is not printable ASCII becomes
/// '?', because control characters and escape sequences change what the terminal shows.
inline std::string printable(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace lyre::tools
