// Markers of recordings that hold data of the run and mark no step for a reader.
#pragma once

#include <string_view>

#include "core/frame/expert_scan.h"
#include "core/frame/precision_scan.h"

namespace moescope {

inline bool is_data_marker(std::string_view kind) {
  return kind == kSettingsMarker || kind == kOperandsMarker || kind == kExpertsMarker || kind == kSimilarityMarker;
}

}  // namespace moescope
