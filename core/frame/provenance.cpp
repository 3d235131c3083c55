#include "core/frame/provenance.h"

namespace moescope {

const char* provenance_name(Provenance provenance) {
  static constexpr const char* kNames[kNumProvenances] = {
      "measured here", "from the log", "measured elsewhere", "counted", "modelled", "fitted", "assumed", "published"};
  return kNames[static_cast<int>(provenance)];
}

const char* provenance_meaning(Provenance provenance) {
  static constexpr const char* kMeanings[kNumProvenances] = {
      "measured by this program while the run trained, or its texts ran through a checkpoint: values, numbers of "
      "tokens, "
      "times",
      "written by another program into the opened file",
      "measured on other machines, and stored with the program or in a file",
      "copies, bytes and FLOPs that follow exactly from a routing and a shape, whether or not they were sent",
      "computed by a stated formula",
      "chosen so that a model agrees with published or measured figures",
      "an assumption within the usual range, not measured or published for this case",
      "from a paper, a vendor or a repository, with its source"};
  return kMeanings[static_cast<int>(provenance)];
}

}  // namespace moescope
