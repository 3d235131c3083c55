#include "core/config/log_names.h"

#include <algorithm>

#include "core/io/assets.h"
#include "core/io/toml_section.h"

namespace moescope {

namespace {

std::vector<LogName> names_in(const Asset& file) {
  std::vector<LogName> names;
  TomlProblems problems{std::string(file.name)};
  const auto table = parse_toml(file.text, problems);
  problems.throw_first();
  const std::string program = (*table)["program"].value_or(std::string());
  if (const toml::table* settings = (*table)["settings"].as_table())
    for (const auto& [setting, list] : *settings)
      if (const toml::array* names_list = list.as_array())
        for (const toml::node& name : *names_list)
          names.push_back({std::string(setting.str()), name.value_or(std::string()), program});
  return names;
}

}  // namespace

const std::vector<LogName>& log_names() {
  static const std::vector<LogName> names = [] {
    std::vector<LogName> all;
    for (const Asset& file : assets())
      if (file.name.starts_with("tags/") && file.name.ends_with(".toml"))
        std::ranges::move(names_in(file), std::back_inserter(all));
    std::stable_partition(all.begin(), all.end(), [](const LogName& name) { return name.program.empty(); });
    return all;
  }();
  return names;
}

}  // namespace moescope
