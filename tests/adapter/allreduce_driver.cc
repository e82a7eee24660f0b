#include <CLI/CLI.hpp>

#include "tools/lyre/allreduce.h"

// `lyre` with no other sub-command than allreduce.
int main(int argc, char** argv) {
  CLI::App app("all-reduce over an NCCL network plugin");
  lyre::tools::add_allreduce(app);
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  return 0;
}
