// Makes links of the layers, experts and steps that a sentence of the findings names: "layer:12", "expert:3",
// "step:480".
#pragma once

#include <QString>

namespace moescope {

QString withLinks(const QString& sentence);  // rich text

}  // namespace moescope
