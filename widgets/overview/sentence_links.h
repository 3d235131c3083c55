// Makes the layers, experts and steps that a sentence of the findings names links: "layer:12", "expert:3", "step:480".
#pragma once

#include <QString>
#include <span>

namespace moescope {

QString withLinks(const QString& sentence);  // rich text
// Returns rich text in which only `experts` are links. `experts` has the order of the sentence, which may name the
// first expert before the list of the others. The link "more" stands for the experts that are not named; with `all`
// they are named, too.
QString withExpertLinks(const QString& sentence, std::span<const int> experts, bool all);

}  // namespace moescope
