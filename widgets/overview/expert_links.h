// Makes links of the experts that a sentence of the findings names: "expert:17" selects one, "more" names those left
// out.
#pragma once

#include <QString>
#include <span>

namespace moescope {

// Rich text. `experts`: in the order of the sentence; the first may be named before the others. `all`: also names those
// behind "and 20 more".
QString withExpertLinks(const QString& sentence, std::span<const int> experts, bool all);

}  // namespace moescope
