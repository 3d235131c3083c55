#include "core/logs/run_choice.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/files/text/text_escape.h"

namespace moescope {

namespace {

constexpr std::size_t kListedRuns = 20;

std::string list_of_runs(const std::vector<std::string>& names) {
  return first_names(names, kListedRuns, 100);
}

}  // namespace

TooManyRuns::TooManyRuns(const std::string& path, std::vector<std::string> of_file, std::size_t max_runs)
    : std::runtime_error(
          fmt::format("{}: holds {} runs; at most {} can be open side by side. --run NAME chooses one of: {}", path,
                      of_file.size(), max_runs, list_of_runs(of_file))),
      names(std::move(of_file)) {}

bool is_wanted(const ImportOptions& options, const std::string& name) {
  return options.only.empty() || std::ranges::find(options.only, name) != options.only.end();
}

void check_choice(const std::string& path, const std::vector<std::string>& names, const ImportOptions& options) {
  for (const std::string& chosen : options.only)
    if (std::ranges::find(names, chosen) == names.end())
      refuse(path, "holds no run named " + printable(chosen) + ". There are: " + list_of_runs(names));
  const std::ptrdiff_t chosen =
      std::ranges::count_if(names, [&](const std::string& name) { return is_wanted(options, name); });
  if (static_cast<std::size_t>(chosen) > options.most_runs) throw TooManyRuns(path, names, options.most_runs);
}

}  // namespace moescope
