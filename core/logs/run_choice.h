// Selects the runs to read from a file with several runs, such as mlflow.db.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

// Thrown if a file has more runs than can be open together and none was chosen.
struct TooManyRuns : std::runtime_error {
  TooManyRuns(const std::string& path, std::vector<std::string> of_file, std::size_t most);
  std::vector<std::string> names;
};

bool is_wanted(const ImportOptions& options, const std::string& name);

// Throws TooManyRuns, or std::runtime_error if options.only has a run that is not in `names`.
void check_choice(const std::string& path, const std::vector<std::string>& names, const ImportOptions& options);

}  // namespace moescope
