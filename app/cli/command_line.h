// The commands of moescope-cli, their options and what they print. Only command_line.cpp and cli_main.cpp include
// CLI11, which takes seconds to compile.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/files/text/report.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace moescope {

// The commands of moescope-cli, each in the file of its name. Their callbacks throw std::runtime_error for wrong input,
// which the user can correct, and ExitStatus for later failures.
void add_train_command(CLI::App& app);      // the trainer without a window
void add_sweep_command(CLI::App& app);      // a grid of runs
void add_reproduce_command(CLI::App& app);  // trains a recorded run again and compares
void add_scan_command(CLI::App& app);       // effect of each operand's format on the gradient
void add_lesson_command(CLI::App& app);     // a guided lesson without a window
void add_claims_command(CLI::App& app);     // published claims, tested on a small model
void add_import_command(CLI::App& app);     // converts logs of other programs to a recording
void add_run_command(CLI::App& app);        // runs texts through a checkpoint of Hugging Face transformers
void add_export_command(CLI::App& app);     // converts a recording to formats that other programs read
void add_check_command(CLI::App& app);      // findings of runs, for scripts
void add_figures_command(CLI::App& app);    // newest figures of a run
void add_quantize_command(CLI::App& app);   // quantizes the tensors of a file
void add_volumes_command(CLI::App& app);    // bytes of an all-to-all by link, counted from a routing
void add_predict_command(CLI::App& app);    // modelled times of a training step on a cluster, or of measured layers

// As fmt::print, but does not throw if the stream cannot be written, which main() reports at the end.
template <class... Values>
void print_to(std::FILE* out, fmt::format_string<Values...> format, Values&&... values) {
  std::fputs(fmt::format(format, std::forward<Values>(values)...).c_str(), out);
}
template <class... Values>
void print_out(fmt::format_string<Values...> format, Values&&... values) {
  print_to(stdout, format, std::forward<Values>(values)...);
}
inline void print_report(const Report& report, bool as_json = false) {
  print_out("{}", as_json ? report.json_text() : report.text());
}

// Thrown by a command that has already printed what went wrong. `value`: exit status of the program.
struct ExitStatus {
  int value;
};

// Thrown if an output file cannot be written. The exit status is 1; wrong input gives 2.
struct OutputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Writes a file as a whole. Throws OutputError "OPTION PATH: why"; `option` may be empty.
void write_output(const std::string& option, const std::string& path, const std::string& text);

// Refers to an option of a command. --help shows the requirements that are set here.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option& required();
  Option& shows_default();  // shows the present value of the variable as default
  template <typename T>     // int, std::int64_t, double
  Option& range(T min, T max);
  Option& one_of(std::vector<std::string> names);
  Option& up_to(int values);  // takes 1 to `values` values
  Option& repeatable();       // may be given several times, each with one value
  Option& needs(Option other);
  Option& excludes(Option other);

 private:
  CLI::Option* option_;
};

// What the help of a command says after its options: assets/commands/COMMAND.txt, or nothing.
std::string command_notes(const std::string& command);

// Refers to a command. Valid as long as the App that the command was added to.
class Command {
 public:
  Command(CLI::App& app, const std::string& name, const std::string& what);
  void last_counts();  // if an option added after this call is given several times, the last value counts
  // `name`: "-o,--out", or for an argument a name without dashes. T: std::string, std::int64_t, an optional of these,
  // int, double, bool (true if the option is given), or std::vector of std::string or std::int64_t. `value` must
  // outlive the command.
  template <typename T>
  Option option(const std::string& name, T& value, const std::string& help);
  void runs(std::function<void()> run);  // `run` is called after the options are read, if the command is given
  bool is_given(const char* option) const;
  // Throws std::runtime_error "--ranks `reason`" if one of `options` was given.
  void refuse(std::initializer_list<const char*> options, const std::string& reason) const {
    for (const char* option : options)
      if (is_given(option)) throw std::runtime_error(std::string(option) + " " + reason);
  }

 private:
  CLI::App* command_;
};

}  // namespace moescope
