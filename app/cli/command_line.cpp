#include "app/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <optional>
#include <type_traits>

#include "core/files/assets.h"
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
  const bool has_max = max < std::numeric_limits<T>::max();
  const std::string allowed = has_max ? fmt::format("in range {} to {}", min, max) : fmt::format("at least {}", min);
  option_->check(CLI::Validator(
      [min, max, allowed](const std::string& text) {
        T value{};
        const bool is_allowed = CLI::detail::lexical_cast(text, value) && value >= min && value <= max;
        return is_allowed ? std::string() : "Value " + text + " is not " + allowed;
      },
      allowed));
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

std::string command_notes(const std::string& command) {
  std::string text(asset("commands/" + command + ".txt"));
  if (!text.empty()) text.pop_back();  // the end of the last line
  return text;
}

Command::Command(CLI::App& app, const std::string& name, const std::string& what)
    : command_(app.add_subcommand(name, what)) {
  command_->footer(command_notes(name));
}

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

void Command::runs(std::function<void()> run) {
  command_->callback(std::move(run));
}

bool Command::is_given(const char* option) const {
  return command_->count(option) > 0;
}

}  // namespace moescope
