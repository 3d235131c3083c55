// moescope-cli: MoEscope without a window.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "app/cli_export.h"
#include "app/cli_import.h"
#include "app/cli_lesson.h"
#include "app/cli_predict.h"
#include "app/cli_quantize.h"
#include "app/cli_reproduce.h"
#include "app/cli_train.h"
#include "app/cli_volumes.h"
#include "core/numerics/gemm.h"

namespace {

constexpr int kWrongInput = 2;

void print_error(const std::string& text) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::fprintf(stderr, "moescope-cli: error: %s\n", text.substr(begin, end - begin).c_str());
    begin = end + 1;
  }
}

// CLI11 would say that a command is required, to someone who gave one.
void check_command(const CLI::App& app, const char* given) {
  std::string allowed;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == given) return;
    allowed += (allowed.empty() ? "" : ", ") + command->get_name();
  }
  throw std::runtime_error(std::string(given) + ": no such command, allowed are " + allowed);
}

}  // namespace

int main(int argc, char** argv) {
  moescope::ensure_fast_openblas(argv);
  CLI::App app{
      "MoEscope without a window: trains mixture-of-experts models, imports logs of other programs, quantizes tensors, "
      "counts "
      "and predicts cluster communication."};
  app.name("moescope-cli");
  app.set_version_flag("--version", "moescope-cli " MOESCOPE_VERSION);
  app.require_subcommand(1);
  moescope::add_train_command(app);
  moescope::add_quantize_command(app);
  moescope::add_volumes_command(app);
  moescope::add_predict_command(app);
  moescope::add_lesson_command(app);
  moescope::add_reproduce_command(app);
  moescope::add_import_command(app);
  moescope::add_export_command(app);
  app.footer(
      "Examples:\n"
      "  moescope-cli train --preset small --steps 500 --out run.moescope\n"
      "  moescope-cli quantize weights.safetensors --format mxfp8_e4m3 --scale rceil --out quantized.safetensors\n"
      "moescope-cli COMMAND --help shows a command's options and further examples.");
  try {
    if (argc > 1 && argv[1][0] != '-') check_command(app, argv[1]);
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::RuntimeError& failure) {
    return failure.get_exit_code();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    print_error(error.what());
    const auto given = app.get_subcommands();
    std::fprintf(stderr, "moescope-cli %s--help shows what is allowed.\n",
                 given.empty() ? "" : (given.front()->get_name() + " ").c_str());
  } catch (const std::exception& error) {
    print_error(error.what());
  }
  return kWrongInput;
}
