#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <streambuf>
#include <string>
#include <vector>

#include "nccl_adapter/abi/setting_names.h"
#include "tools/lyre/allreduce.h"
#include "tools/lyre/command_line.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/options.h"

namespace {

using namespace lyre::tools;

/// The buffer of std::cout. It keeps the reason of the first write that failed: a command may call
/// much between that and its end.
class StandardOutput : public std::streambuf {
 public:
  StandardOutput() : before_(std::cout.rdbuf(this)) {}
  ~StandardOutput() override { std::cout.rdbuf(before_); }
  /// A value of errno. 0: no write failed.
  int error() const { return error_; }

 protected:
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    const size_t written = std::fwrite(bytes, 1, static_cast<size_t>(count), stdout);
    keep_error(written == static_cast<size_t>(count));
    return static_cast<std::streamsize>(written);
  }
  int_type overflow(int_type byte) override {
    if (traits_type::eq_int_type(byte, traits_type::eof())) return traits_type::not_eof(byte);
    const char one = traits_type::to_char_type(byte);
    return xsputn(&one, 1) == 1 ? byte : traits_type::eof();
  }
  int sync() override {
    const bool is_written = std::fflush(stdout) == 0;
    keep_error(is_written);
    return is_written ? 0 : -1;
  }

 private:
  void keep_error(bool is_written) {
    if (!is_written && error_ == 0) error_ = errno;
  }

  std::streambuf* before_;
  int error_ = 0;
};

int fail(int exit_code, const std::string& line) {
  std::cerr << "lyre: " << line << std::endl;
  return exit_code;
}

/// Not in the rank processes of `lyre allreduce`: the command itself has printed the lines.
void warn_of_unknown_settings(const CLI::App& app) {
  if (is_rank_process(app)) return;
  for (const std::string& line : lyre::nccl_abi::unknown_settings(environ)) fail(0, line);
}

int parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();  // the command has printed the reason
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::RequiredError& error) {
    const std::vector<std::string> rest = app.remaining();
    if (rest.empty()) return fail(kExitUsage, std::string(error.what()) + " (see lyre --help)");
    return fail(kExitUsage, "there is no command '" + rest.front() + "' (see lyre --help)");
  } catch (const CLI::ParseError& error) {
    return fail(kExitUsage, std::string(error.what()) + " (see lyre --help)");
  } catch (const Failure& failure) {
    return fail(failure.exit_code(), failure.what());
  } catch (const std::exception& error) {
    return fail(kExitFailure, error.what());
  }
}

/// The exit code of a command that has returned `exit_code`. A reader that closed the pipe is no
/// failure.
int flush(const StandardOutput& output, int exit_code) {
  std::cout.flush();
  if (output.error() == 0 || output.error() == EPIPE) return exit_code;
  fail(kExitFailure,
       std::string("standard output was not written: ") + std::strerror(output.error()));
  return exit_code != 0 ? exit_code : kExitFailure;
}

}  // namespace

int main(int argc, char** argv) {
  StandardOutput output;
  CLI::App app;
  GlobalOptions globals;
  define_command_line(app, globals);
  app.parse_complete_callback([&app] { warn_of_unknown_settings(app); });
  return flush(output, parse(app, argc, argv));
}
