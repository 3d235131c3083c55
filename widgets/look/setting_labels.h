// Settings in texts of the screen by their labels, as the set-up shows them, in place of their keys.
#pragma once

#include <QString>

namespace moescope {

// Returns the text with labels for keys of settings: router.top_k becomes "Experts per token", in quotes.
QString withSettingLabels(const QString& text);

}  // namespace moescope
