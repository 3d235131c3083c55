// The experts that a sentence of the findings names, as links: "expert:17" to choose one, "more" for those left out.
#pragma once

#include <QString>
#include <span>

namespace moescope {

// Rich text. `experts` in the order in which the sentence lists them; the first may be named before the others. With
// `all` those behind "and 20 more" are named, too.
QString withExpertLinks(const QString& sentence, std::span<const int> experts, bool all);

}  // namespace moescope
