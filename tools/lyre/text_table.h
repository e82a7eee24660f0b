#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lyre::tools {

/// A table of text with aligned columns, separated by two spaces.
class TextTable {
 public:
  enum class Align { kLeft, kRight };

  /// Adds a column. The first line has its title.
  void add_column(const std::string& title, Align align = Align::kLeft);
  /// REQUIRES: as many cells as columns.
  void add_row(std::vector<std::string> cells);
  bool is_empty() const { return rows_.empty(); }
  size_t row_count() const { return rows_.size(); }
  /// All lines, each with its newline and without trailing spaces. What the last column has beyond
  /// `columns_max` goes on in further lines, a word at the least in each.
  std::string text(size_t columns_max = SIZE_MAX) const;

 private:
  std::string line(const std::vector<std::string>& cells, const std::vector<size_t>& widths) const;

  std::vector<std::string> titles_;
  std::vector<Align> aligns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace lyre::tools
