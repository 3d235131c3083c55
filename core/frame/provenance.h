// Kinds of numbers by their origin. Every number on the screen shows its kind.
#pragma once

namespace moescope {

enum class Provenance { measured_here, from_log, measured_elsewhere, counted, modelled, fitted, assumed, published };
inline constexpr int kNumProvenances = 8;
const char* provenance_name(Provenance provenance);  // "measured here", "from the log", "counted", ...

}  // namespace moescope
