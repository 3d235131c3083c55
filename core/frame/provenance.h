// How a number came to be: every number on the screen says it.
#pragma once

namespace moescope {

// provenance_meaning says it in a sentence. Each word is used for one thing.
enum class Provenance { measured_here, from_log, measured_elsewhere, counted, modelled, fitted, assumed, published };
inline constexpr int kNumProvenances = 8;
const char* provenance_name(Provenance provenance);     // "measured here", "from the log", "counted", ...
const char* provenance_meaning(Provenance provenance);  // for legends

}  // namespace moescope
