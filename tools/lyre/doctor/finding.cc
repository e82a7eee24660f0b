#include "tools/lyre/doctor/finding.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/lyre/json_document.h"
#include "tools/lyre/printable.h"

namespace lyre::tools {
namespace {

constexpr const char* kVerdictTexts[] = {"ok", "note", "PROBLEM"};
constexpr size_t kVerdictWidth = 9;
constexpr size_t kCheckWidth = 14;

const char* text_of(Verdict verdict) { return kVerdictTexts[static_cast<size_t>(verdict)]; }

std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

int64_t count(const std::vector<Finding>& findings, Verdict verdict) {
  return std::count_if(findings.begin(), findings.end(),
                       [&](const Finding& finding) { return finding.verdict == verdict; });
}

std::string plural(int64_t number, const char* noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

}  // namespace

void refer_to_administrator(std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    if (finding.mend.find("lyred.toml") == std::string::npos) continue;
    finding.mend += "    # lyred.toml is not this user's: ask the administrator of this machine";
  }
}

bool has_problem(const std::vector<Finding>& findings) {
  return count(findings, Verdict::kProblem) > 0;
}

std::string findings_text(const std::vector<Finding>& findings) {
  const std::string margin(kVerdictWidth + kCheckWidth, ' ');
  std::string out;
  for (const Finding& finding : findings) {
    out += padded(text_of(finding.verdict), kVerdictWidth) + padded(finding.check, kCheckWidth) +
           printable(finding.saw) + "\n";
    if (!finding.why.empty()) out += margin + "why: " + printable(finding.why) + "\n";
    if (!finding.mend.empty()) out += margin + "do:  " + printable(finding.mend) + "\n";
  }
  return out + "\n" + plural(count(findings, Verdict::kProblem), "problem") + ", " +
         plural(count(findings, Verdict::kNote), "note") + "\n";
}

std::string findings_json(const std::vector<Finding>& findings) {
  auto checks = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    checks.push_back({{"check", finding.check},
                      {"verdict", text_of(finding.verdict)},
                      {"saw", finding.saw},
                      {"why", finding.why},
                      {"mend", finding.mend}});
  }
  const nlohmann::ordered_json content = {{"problems", count(findings, Verdict::kProblem)},
                                          {"notes", count(findings, Verdict::kNote)},
                                          {"checks", std::move(checks)}};
  return json_text(document_of(content), false);
}

}  // namespace lyre::tools
