// moescope-cli: MoEScope without a window.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "app/cli/command_line.h"
#include "app/cli/processes.h"
#include "app/program/program_start.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/logs/standard_input.h"
#include "core/numerics/threads.h"

namespace {

constexpr int kFailed = 1, kWrongInput = 2;

void print_error(const std::string& what) {
  const std::string text = moescope::named_standard_input(moescope::without_json_error_numbers(what));
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    moescope::print_to(stderr, "moescope-cli: error: {}\n", moescope::printable(text.substr(begin, end - begin)));
    begin = end + 1;
  }
}

// Checks that the command exists. CLI11 would report an unknown command as a missing command.
void check_command(const CLI::App& app, const char* name) {
  const std::vector<const CLI::App*> commands = app.get_subcommands({});
  if (std::ranges::find(commands, name, &CLI::App::get_name) == commands.end())
    throw std::runtime_error(std::string(name) +
                             ": no such command; allowed: " + moescope::joined(commands, ", ", &CLI::App::get_name));
}

// All processes of `mpirun moescope-cli train --ep R` or `sweep` find the same errors; only rank 0 prints them.
bool prints_errors(int argc, char** argv) {
  const bool among_ranks = std::any_of(argv, argv + argc, [](const std::string& arg) {
    return arg == "--ep" || arg.starts_with("--ep=") || arg == "sweep";
  });
  if (!among_ranks) return true;
  const std::optional<moescope::LaunchedRank> launched = moescope::launched_rank();
  return !launched || launched->rank == 0;
}

// mpirun ends all processes when one ends with an error, so the other ranks wait to give rank 0 time to print it.
int exit_status(int status, bool prints) {
  if (status != 0 && !prints) std::this_thread::sleep_for(std::chrono::seconds(1));
  return status;
}

// Flushes standard output and reports if that fails, since a full disk shows only here. Returns the exit status.
int check_stdout(int status) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
  // The errno of the failed write is gone, but another write fails for the same reason.
  const bool still_fails = write(STDOUT_FILENO, "\n", 1) < 0;
  print_error(std::string("standard output: cannot be written: ") +
              (still_fails ? std::strerror(errno) : "a part of the output is missing"));
  return status == 0 ? kFailed : status;
}

}  // namespace

int main(int argc, char** argv) {
  moescope::keep_standard_streams();
  moescope::start_with_fast_kernels(argv);
  if (const std::string note = moescope::thread_limit_note(); !note.empty())
    moescope::print_to(stderr, "moescope-cli: {}\n", note);
  std::signal(SIGXFSZ, SIG_IGN);  // a write above the limit on file sizes then fails
  CLI::App app{
      "MoEScope without a window: trains mixture-of-experts models, imports logs of other programs, quantizes tensors, "
      "counts and predicts cluster communication."};
  app.name("moescope-cli");
  app.set_version_flag("--version", "moescope-cli " MOESCOPE_VERSION);
  app.require_subcommand(1);
  moescope::add_train_command(app);
  moescope::add_quantize_command(app);
  moescope::add_volumes_command(app);
  moescope::add_predict_command(app);
  moescope::add_lesson_command(app);
  moescope::add_claims_command(app);
  moescope::add_reproduce_command(app);
  moescope::add_import_command(app);
  moescope::add_run_command(app);
  moescope::add_export_command(app);
  moescope::add_check_command(app);
  moescope::add_figures_command(app);
  moescope::add_scan_command(app);
  moescope::add_sweep_command(app);
  app.footer(moescope::command_notes("moescope-cli"));
  const bool prints = prints_errors(argc, argv);
  try {
    if (argc > 1 && argv[1][0] != '-') check_command(app, argv[1]);
    app.parse(argc, argv);
    return check_stdout(0);
  } catch (const moescope::ExitStatus& status) {
    return exit_status(check_stdout(status.value), prints);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return check_stdout(app.exit(error));  // --help, --version
    if (!prints) return exit_status(kWrongInput, false);
    print_error(error.what());
    const auto subcommands = app.get_subcommands();
    moescope::print_to(stderr, "moescope-cli {}--help shows what is allowed.\n",
                       subcommands.empty() ? "" : subcommands.front()->get_name() + " ");
  } catch (const moescope::OutputError& error) {
    print_error(error.what());
    return kFailed;
  } catch (const std::bad_alloc&) {
    print_error("there is not enough memory for this");
    return kFailed;
  } catch (const std::exception& error) {
    if (prints) print_error(error.what());
  }
  return exit_status(kWrongInput, prints);
}
