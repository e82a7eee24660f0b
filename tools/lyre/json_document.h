#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

/// What `--json` prints, of every command. A key ends in its unit: _ns, _bytes, _bits_per_s.
namespace lyre::tools {

/// Changes when a key is renamed or removed, or means something else. New keys do not change it.
inline constexpr int kJsonSchema = 1;

/// "schema", then the members of `content`.
nlohmann::ordered_json document_of(const nlohmann::ordered_json& content);

/// With its newline. In one line for programs that read a watch line by line.
std::string json_text(const nlohmann::ordered_json& document, bool is_one_line);

}  // namespace lyre::tools
