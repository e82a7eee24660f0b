#include "tools/lyre/documents/roff.h"

#include <algorithm>
#include <cctype>

#ifndef LYRE_VERSION
#error "the build names version and date"
#endif

namespace lyre::tools {
namespace {

std::string words(const std::vector<std::string>& choices) {
  std::string out;
  for (const std::string& choice : choices) {
    out += (out.empty() ? "" : ", ") + ("\\fB" + escaped(choice) + "\\fR");
  }
  return out;
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && out.empty()) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string sentence(const std::string& text) {
  std::string out = escaped(text);
  if (!out.empty()) out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  return out.empty() || out.back() == '.' ? out : out + ".";
}

std::string option_item(const OptionText& option) {
  std::string out = ".TP\n";
  std::string names;
  for (const std::string& name : option.names) {
    names += (names.empty() ? "" : ", ") + ("\\fB" + escaped(name) + "\\fR");
  }
  if (!option.value.empty()) {
    const std::string value = "\\fI" + escaped(option.value) + "\\fR";
    names += option.is_value_optional ? " [" + value + "]" : " " + value;
  }
  out += names + "\n" + sentence(option.text) + "\n";
  if (!option.choices.empty()) out += "One of " + words(option.choices) + ".\n";
  if (!option.default_value.empty()) {
    out += "Default: " + escaped(option.default_value) + ".\n";
  }
  return out;
}

std::string page_head(const std::string& name, int section, const std::string& text) {
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return ".\\\" Made from the tables of the programs.\n.TH " + escaped(title) + " " +
         std::to_string(section) + " \"" LYRE_DATE "\" \"Lyre " LYRE_VERSION "\"\n.SH NAME\n" +
         escaped(name) + " \\- " + escaped(text) + "\n";
}

}  // namespace lyre::tools
