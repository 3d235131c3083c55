// Finds the axes of arrays of counts, which are steps, layers and experts, and builds runs of them.
//
// The last axis is that of the experts; numbers in the name (count_names.h) and the axes before the last one are steps
// and layers: [experts], [layers, experts] or [steps, experts], [steps, layers, experts]. If a single axis may be
// either, options.routed.layers decides: the number of rows (all are layers) or 1 (all are steps).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

struct CountArray {
  std::string name;                // with the keys of the containers around it: "records.0.global_physical_count"
  std::vector<std::size_t> shape;  // empty for a number
  std::function<std::vector<double>()> values;
};

// True if an array counts tokens by expert, judged by its name.
bool is_count_array(const CountArray& array, const std::string& path);

// Builds a run of every name of counts. `file_shape`: numbers that the file states beside its arrays. Throws
// std::runtime_error if an array cannot be read, AmbiguousRouting if its axes may be layers as well as steps.
Imported runs_of_counts(const std::string& path, const std::vector<CountArray>& arrays, const RoutedShape& file_shape,
                        const ImportOptions& options);

}  // namespace moescope
