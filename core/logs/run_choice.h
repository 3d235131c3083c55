// Selects the runs to read from a file with several runs, such as mlflow.db.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

// Thrown if more runs of a file are chosen than can be open together. Without a choice, all its runs count.
struct TooManyRuns : std::runtime_error {
  TooManyRuns(const std::string& path, std::vector<std::string> of_file, std::size_t max_runs);
  std::vector<std::string> names;
};

bool is_wanted(const ImportOptions& options, const std::string& name);

// Throws TooManyRuns if `options` choose more than options.most_runs of the runs `names`; std::runtime_error if
// options.only has a run that is not in `names`.
void check_choice(const std::string& path, const std::vector<std::string>& names, const ImportOptions& options);

}  // namespace moescope
