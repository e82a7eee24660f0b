#include "tools/lyre/text_table.h"

#include <algorithm>
#include <utility>

namespace lyre::tools {

void TextTable::add_column(const std::string& title, Align align) {
  titles_.push_back(title);
  aligns_.push_back(align);
}

void TextTable::add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string TextTable::line(const std::vector<std::string>& cells,
                            const std::vector<size_t>& widths) const {
  std::string out;
  for (size_t i = 0; i < titles_.size(); ++i) {
    if (i > 0) out += "  ";
    const std::string padding(widths[i] - cells[i].size(), ' ');
    out += aligns_[i] == Align::kRight ? padding + cells[i] : cells[i] + padding;
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

std::string TextTable::text() const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < titles_.size(); ++i) {
    size_t width = titles_[i].size();
    for (const auto& row : rows_) width = std::max(width, row[i].size());
    widths.push_back(width);
  }
  std::string out = line(titles_, widths);
  for (const auto& row : rows_) out += line(row, widths);
  return out;
}

}  // namespace lyre::tools
