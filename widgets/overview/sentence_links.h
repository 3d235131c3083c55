// Makes links of the layers, experts and steps that a sentence of the findings names: "layer:12", "expert:3",
// "step:480".
#pragma once

#include <QString>
#include <span>

namespace moescope {

QString withLinks(const QString& sentence);  // rich text
// Rich text in which only `experts` are links: in the order of the sentence; the first may be named before the others.
// "more" links to those that the sentence leaves out, which `all` names, too.
QString withExpertLinks(const QString& sentence, std::span<const int> experts, bool all);

}  // namespace moescope
