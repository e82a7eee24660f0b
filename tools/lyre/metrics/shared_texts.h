#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lyre::tools {

/// The answers of scrapes that are being sent. An answer may have lines for each comm of each
/// process, and takes several times its size while it is made. So slow scrapers share the newest
/// one. Thread: one.
class SharedTexts {
 public:
  /// Texts that exist at a time.
  static constexpr size_t kTextsMax = 2;

  /// Owner: *takes* `make`, which makes a new text.
  explicit SharedTexts(std::function<std::string()> make) : make_(std::move(make)) {}

  /// A new text, or the newest one while kTextsMax are held. The older ones are not given out any
  /// more, so a shared text is no older than a scraper may take.
  /// Owner: *shares* the text. Fails: what `make` throws.
  std::shared_ptr<const std::string> next() {
    std::erase_if(held_, [](const auto& text) { return text.expired(); });
    if (held_.size() >= kTextsMax) return held_.back().lock();
    auto text = std::make_shared<const std::string>(make_());
    held_.push_back(text);
    return text;
  }

 private:
  std::function<std::string()> make_;
  std::vector<std::weak_ptr<const std::string>> held_;  ///< the newest one is the last
};

}  // namespace lyre::tools
