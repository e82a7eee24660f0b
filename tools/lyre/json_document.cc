#include "tools/lyre/json_document.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace lyre::tools {
namespace {

constexpr int kIndentColumns = 2;

std::string dump(const nlohmann::ordered_json& value, bool is_one_line) {
  // Labels and names come from clients and may be any bytes.
  return value.dump(is_one_line ? -1 : kIndentColumns, ' ', false,
                    nlohmann::ordered_json::error_handler_t::replace);
}

/// What stands before a member or an item at that depth, and before the bracket that closes it.
std::string line_begin(bool is_one_line, size_t depth) {
  return is_one_line ? "" : "\n" + std::string(kIndentColumns * depth, ' ');
}

/// A text in JSON has no newline in it: those of a dump are between values.
void print_indented(std::ostream& out, const nlohmann::ordered_json& value, bool is_one_line,
                    size_t depth) {
  const std::string text = dump(value, is_one_line);
  const std::string begin = line_begin(is_one_line, depth);
  std::string_view rest = text;
  for (size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
    out << rest.substr(0, end) << begin;
    rest.remove_prefix(end + 1);
  }
  out << rest;
}

void print_items(std::ostream& out, const JsonItems& items, bool is_one_line) {
  out << "[";
  for (size_t i = 0; i < items.count && out; ++i) {
    out << (i == 0 ? "" : ",") << line_begin(is_one_line, 2);
    print_indented(out, items.item(i), is_one_line, 2);
  }
  out << (items.count == 0 ? "" : line_begin(is_one_line, 1)) << "]";
}

}  // namespace

nlohmann::ordered_json document_of(nlohmann::ordered_json content) {
  nlohmann::ordered_json out = {{"schema", kJsonSchema}};
  move_members(std::move(content), out);
  return out;
}

void move_members(nlohmann::ordered_json from, nlohmann::ordered_json& to) {
  for (auto member = from.begin(); member != from.end(); ++member) {
    to[member.key()] = std::move(member.value());
  }
}

std::string json_text(const nlohmann::ordered_json& document, bool is_one_line) {
  return dump(document, is_one_line) + "\n";
}

void print_json(std::ostream& out, const nlohmann::ordered_json& document, bool is_one_line,
                const JsonItems& items) {
  const char* before = "{";
  for (auto member = document.begin(); member != document.end(); ++member) {
    out << std::exchange(before, ",") << line_begin(is_one_line, 1)
        << dump(member.key(), is_one_line) << (is_one_line ? ":" : ": ");
    if (member.key() == items.key) {
      print_items(out, items, is_one_line);
    } else {
      print_indented(out, member.value(), is_one_line, 1);
    }
  }
  out << line_begin(is_one_line, 0) << "}\n";
}

}  // namespace lyre::tools
