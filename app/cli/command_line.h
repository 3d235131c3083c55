// The commands of moescope-cli and their options. command_line.cpp and cli_main.cpp alone read CLI11, which costs every
// file that does seconds of compiling.
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

// Thrown by a command that has said what went wrong: the exit status of the program.
struct ExitStatus {
  int value;
};

// An output file that cannot be written, unlike wrong input: exit status 1 rather than 2.
struct OutputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Refers to an option of a command. Its requirements are shown by --help.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option& required();
  Option& shows_default();  // shows the present value of the variable as default
  template <typename T>     // int, std::int64_t, double
  Option& range(T least, T most);
  Option& one_of(std::vector<std::string> names);
  Option& up_to(int values);  // takes 1 to `values` values
  Option& repeatable();       // may be given several times, each with one value
  Option& needs(Option other);
  Option& excludes(Option other);

 private:
  CLI::Option* option_;
};

// Refers to a command, which lasts as long as the App it was added to.
class Command {
 public:
  Command(CLI::App& app, const std::string& name, const std::string& what);
  void last_counts();  // of options added from now on that are given several times, the last one counts
  // `name`: "-o,--out", or without dashes for an argument. T: std::string or std::int64_t or an optional one,
  // int, double, bool (true where it is given), std::vector of std::string or std::int64_t. `value` outlives the
  // command.
  template <typename T>
  Option option(const std::string& name, T& value, const std::string& help);
  void footer(const std::string& text);
  void runs(std::function<void()> run);  // called after the options were read, if the command was given
  bool given(const char* option) const;
  // Throws std::runtime_error when one of `options` was given: "--ranks `why`".
  void refuse(std::initializer_list<const char*> options, const std::string& why) const;

 private:
  CLI::App* command_;
};

}  // namespace moescope
