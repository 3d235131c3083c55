#include "core/telemetry/frame/provenance.h"

namespace moescope {

const char* provenance_name(Provenance provenance) {
  static constexpr const char* kNames[kNumProvenances] = {
      "measured here", "measured elsewhere", "counted", "modelled", "fitted", "assumed", "published"};
  return kNames[static_cast<int>(provenance)];
}

const char* provenance_meaning(Provenance provenance) {
  static constexpr const char* kMeanings[kNumProvenances] = {
      "taken from this run while it trained: values, numbers of tokens, times",
      "taken on other machines, and stored with the program or in a file",
      "copies, bytes and FLOPs that follow exactly from a routing and a shape, whether or not anything was sent",
      "computed by a stated formula",
      "chosen so that a model meets published or measured figures",
      "a guess within the usual range, not measured or published for this case",
      "from a paper, a vendor or a repository, with its source"};
  return kMeanings[static_cast<int>(provenance)];
}

}  // namespace moescope
