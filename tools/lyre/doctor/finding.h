#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lyre::tools {

/// How good a thing is that `lyre doctor` looked at.
enum class Verdict : uint8_t {
  kFine,
  kNote,     ///< works; it could be better
  kProblem,  ///< Lyre does not start, or ignores a setting
};

/// One check: what was seen, why it matters, the command that mends it.
struct Finding {
  std::string check;  ///< a short name that scripts may rely on: "hugepages"
  Verdict verdict = Verdict::kFine;
  std::string saw;
  std::string why;   ///< empty when it is fine
  std::string mend;  ///< a command or a line of configuration; empty when it is fine
};

inline Finding fine(std::string check, std::string saw) {
  return {std::move(check), Verdict::kFine, std::move(saw), "", ""};
}
inline Finding note(std::string check, std::string saw, std::string why, std::string mend) {
  return {std::move(check), Verdict::kNote, std::move(saw), std::move(why), std::move(mend)};
}
inline Finding problem(std::string check, std::string saw, std::string why, std::string mend) {
  return {std::move(check), Verdict::kProblem, std::move(saw), std::move(why), std::move(mend)};
}

/// For a user who may not write the configuration of lyred: a remedy that changes it says whom to
/// ask.
void refer_to_administrator(std::vector<Finding>& findings);

/// A line for each finding, and below it why and the command unless it is fine; last the number of
/// problems. Bytes that are not printable ASCII become '?'.
std::string findings_text(const std::vector<Finding>& findings);
/// Bytes that are not UTF-8 become U+FFFD.
std::string findings_json(const std::vector<Finding>& findings);
bool has_problem(const std::vector<Finding>& findings);

}  // namespace lyre::tools
