#include "app/cli/command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/files/whole_file.h"

namespace moescope {

void write_output(const std::string& option, const std::string& path, const std::string& text) {
  try {
    write_whole_file(path, text);
  } catch (const std::runtime_error& problem) {
    throw OutputError(option + (option.empty() ? "" : " ") + problem.what());
  }
}

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::shows_default() {
  option_->capture_default_str();
  return *this;
}

template <typename T>
Option& Option::range(T min, T max) {
  const auto range = CLI::Range(min, max);
  if constexpr (std::is_floating_point_v<T>)  // CLI::Range lets NaN pass
    option_->check(CLI::Validator(
        [](std::string& text) {
          T value{};
          const bool is_nan = CLI::detail::lexical_cast(text, value) && std::isnan(value);
          return is_nan ? "Value " + text + " is not a number" : std::string();
        },
        ""));
  if (max < std::numeric_limits<T>::max()) {
    option_->check(range);
    return *this;
  }
  const std::string description = fmt::format("at least {}", min);
  option_->check(CLI::Validator(
      [range, description](std::string& text) {
        return range(text).empty() ? "" : "Value " + text + " is not " + description;
      },
      description));
  return *this;
}
template Option& Option::range(int, int);
template Option& Option::range(std::int64_t, std::int64_t);
template Option& Option::range(double, double);

Option& Option::one_of(std::vector<std::string> names) {
  option_->check(CLI::IsMember(std::move(names)));
  return *this;
}

Option& Option::up_to(int values) {
  option_->expected(1, values);
  return *this;
}

Option& Option::repeatable() {
  option_->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false);
  return *this;
}

Option& Option::needs(Option other) {
  option_->needs(other.option_);
  return *this;
}

Option& Option::excludes(Option other) {
  option_->excludes(other.option_);
  return *this;
}

Command::Command(CLI::App& app, const std::string& name, const std::string& what)
    : command_(app.add_subcommand(name, what)) {}

void Command::last_counts() {
  command_->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

template <typename T>
Option Command::option(const std::string& name, T& value, const std::string& help) {
  if constexpr (std::is_same_v<T, bool>) return Option(command_->add_flag(name, value, help));
  CLI::Option* option = command_->add_option(name, value, help);
  option->check(CLI::Validator(  // as of a variable of the shell that is not set
      [](std::string& text) { return text.empty() ? "is empty; give a value, or leave the option out" : ""; }, ""));
  return Option(option);
}
template Option Command::option(const std::string&, std::string&, const std::string&);
template Option Command::option(const std::string&, int&, const std::string&);
template Option Command::option(const std::string&, std::int64_t&, const std::string&);
template Option Command::option(const std::string&, std::optional<std::string>&, const std::string&);
template Option Command::option(const std::string&, std::optional<std::int64_t>&, const std::string&);
template Option Command::option(const std::string&, double&, const std::string&);
template Option Command::option(const std::string&, bool&, const std::string&);
template Option Command::option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Command::option(const std::string&, std::vector<std::int64_t>&, const std::string&);

void Command::footer(const std::string& text) {
  command_->footer(text);
}

void Command::runs(std::function<void()> run) {
  command_->callback(std::move(run));
}

bool Command::is_given(const char* option) const {
  return command_->count(option) > 0;
}

}  // namespace moescope
