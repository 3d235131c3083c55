// Layers, experts and steps that a sentence of the findings names, as links: "layer:12", "expert:3", "step:480".
#pragma once

#include <QString>

namespace moescope {

QString withLinks(const QString& sentence);  // rich text

}  // namespace moescope
