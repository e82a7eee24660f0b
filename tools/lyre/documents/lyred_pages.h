#pragma once

#include <string>

/// The manual pages of the daemon, in the man(7) language.
namespace lyre::tools {

/// lyred(8): its options, signals, exit statuses and files.
std::string lyred_page();

/// lyred.toml(5): every key with what it does, what is allowed, and its default.
std::string config_page();

}  // namespace lyre::tools
