#pragma once

#include <string>
#include <vector>

namespace lyre::tools {

/// Rows of cells, printed with aligned columns, two spaces between them.
class TextTable {
 public:
  enum class Align { kLeft, kRight };

  /// A column; its title stands in the first line.
  void add_column(const std::string& title, Align align = Align::kLeft);
  /// REQUIRES: one cell a column.
  void add_row(std::vector<std::string> cells);
  bool is_empty() const { return rows_.empty(); }
  /// Lines with their ends; without trailing spaces.
  std::string text() const;

 private:
  std::string line(const std::vector<std::string>& cells, const std::vector<size_t>& widths) const;

  std::vector<std::string> titles_;
  std::vector<Align> aligns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace lyre::tools
