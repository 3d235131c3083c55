#include "core/frame/provenance.h"

namespace moescope {

const char* provenance_name(Provenance provenance) {
  static constexpr const char* kNames[kNumProvenances] = {
      "measured here", "from the log", "measured elsewhere", "counted", "modelled", "fitted", "assumed", "published"};
  return kNames[static_cast<int>(provenance)];
}

}  // namespace moescope
