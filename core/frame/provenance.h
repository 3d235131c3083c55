// Kinds of numbers by their origin. Every number on the screen shows its kind.
#pragma once

namespace moescope {

enum class Provenance { measured_here, from_log, measured_elsewhere, counted, modelled, fitted, assumed, published };
inline constexpr int kNumProvenances = 8;
inline const char* provenance_name(Provenance provenance) {
  constexpr const char* kNames[kNumProvenances] = {
      "measured here", "from the log", "measured elsewhere", "counted", "modelled", "fitted", "assumed", "published"};
  return kNames[static_cast<int>(provenance)];
}

}  // namespace moescope
