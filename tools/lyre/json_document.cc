#include "tools/lyre/json_document.h"

#include <nlohmann/json.hpp>

namespace lyre::tools {

nlohmann::ordered_json document_of(const nlohmann::ordered_json& content) {
  nlohmann::ordered_json out = {{"schema", kJsonSchema}};
  out.update(content);
  return out;
}

std::string json_text(const nlohmann::ordered_json& document, bool is_one_line) {
  // Labels and names come from clients and may be any bytes.
  return document.dump(is_one_line ? -1 : 2, ' ', false,
                       nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace lyre::tools
