#include "tools/lyre/text_table.h"

#include <algorithm>
#include <utility>

namespace lyre::tools {
namespace {

/// Takes the words of `rest` that fit, at least one.
std::string take_words(std::string& rest, size_t columns) {
  size_t end = rest.size();
  if (end > columns) {
    end = rest.find_last_of(' ', columns);
    if (end == std::string::npos || end == 0) end = std::min(rest.find(' ', 1), rest.size());
  }
  std::string taken = rest.substr(0, end);
  rest.erase(0, std::min(end + 1, rest.size()));
  return taken;
}

}  // namespace

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

std::string TextTable::text(size_t columns_max) const {
  std::vector<size_t> widths;
  size_t last_begin = 0;
  for (size_t i = 0; i < titles_.size(); ++i) {
    size_t width = titles_[i].size();
    for (const auto& row : rows_) width = std::max(width, row[i].size());
    widths.push_back(width);
    if (i + 1 < titles_.size()) last_begin += width + 2;
  }
  std::string out = line(titles_, widths);
  for (auto cells : rows_) {
    std::string rest = std::move(cells.back());
    do {
      cells.back() = take_words(rest, columns_max - std::min(last_begin, columns_max));
      out += line(cells, widths);
      std::ranges::fill(cells, std::string());
    } while (!rest.empty());
  }
  return out;
}

}  // namespace lyre::tools
