// Files that hold several runs, as mlflow.db: which of them are read.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

// A file holds more runs than can be open together, and none was chosen.
struct TooManyRuns : std::runtime_error {
  TooManyRuns(const std::string& path, std::vector<std::string> of_file, std::size_t most);
  std::vector<std::string> names;
};

bool is_wanted(const ImportOptions& options, const std::string& name);

// Throws TooManyRuns; std::runtime_error: options.only names a run that `names` does not.
void check_choice(const std::string& path, const std::vector<std::string>& names, const ImportOptions& options);

}  // namespace moescope
