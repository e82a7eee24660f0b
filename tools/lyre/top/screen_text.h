#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/lyre/session_filter.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// The least that `lyre top` can be read on.
inline constexpr size_t kTopColumnsMin = 80;
inline constexpr size_t kTopLinesMin = 24;

struct TopView {
  size_t columns = kTopColumnsMin;
  size_t lines = kTopLinesMin;
  SessionFilter::Order order = SessionFilter::Order::kSent;
};

/// The name of an order as `lyre sessions --sort` has it.
const char* order_name(SessionFilter::Order order);
/// The one that key s chooses after this one.
SessionFilter::Order order_after(SessionFilter::Order order);

/// The screen, line by line: at most `lines`, none longer than `columns`. Titles are the lines of
/// which is_title is set. Rates are those since `earlier`; without it they are shown as "-".
struct TopLine {
  std::string text;
  bool is_title = false;
};
std::vector<TopLine> top_screen(const Snapshot& now, const Snapshot* earlier, const TopView& view);

}  // namespace lyre::tools
