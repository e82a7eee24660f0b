#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>

/// What `--json` prints, of every command. A key ends in its unit: _ns, _bytes, _bits_per_s.
namespace lyre::tools {

/// Changes when a key is renamed or removed, or means something else. New keys do not change it.
inline constexpr int kJsonSchema = 1;

/// "schema", then the members of `content`.
nlohmann::ordered_json document_of(nlohmann::ordered_json content);

/// Gives the members of `from` to `to`, without a copy. Both are objects.
void move_members(nlohmann::ordered_json from, nlohmann::ordered_json& to);

/// With its newline. In one line for programs that read a watch line by line.
std::string json_text(const nlohmann::ordered_json& document, bool is_one_line);

/// The items of a long array. They are made one at a time while they are printed: those of 100 000
/// sessions take hundreds of MiB.
struct JsonItems {
  std::string key;  ///< of the array in the document. Empty: no array is made so
  size_t count = 0;
  std::function<nlohmann::ordered_json(size_t index)> item;
};

/// Prints what json_text() returns, a member at a time. REQUIRES: `document` is an object that is
/// not empty. What it has at `items.key` is not printed: the items are.
void print_json(std::ostream& out, const nlohmann::ordered_json& document, bool is_one_line,
                const JsonItems& items = {});

}  // namespace lyre::tools
