// The commands of moescope-cli and their options. Only command_line.cpp and cli_main.cpp include CLI11, which takes
// seconds to compile.
#pragma once

#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace moescope {

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
